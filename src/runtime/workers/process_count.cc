#include "runtime/workers/process_count.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "base/text_parts.h"

namespace regroup::runtime {
namespace {

constexpr std::string_view kCountAdvice = "Pass a number, cpu, gpu or auto";

// Blanks around it are accepted: Python accepts them, and values come from job scripts.
std::optional<int> parse_number(std::string_view text) {
  return to_number<int>(trimmed(text, " \t\n"));
}

tl::unexpected<Error> refuse(const std::string& nproc, std::string_view why) {
  std::string message = "cannot tell how many workers to start: --nproc-per-node=";
  message.append(nproc.empty() ? "''" : nproc).append(": ").append(why);
  return fail(ErrorKind::InvalidArgument, std::move(message));
}

std::string why_no_gpu(const io::Devices& devices) {
  std::string why;
  if (devices.gpus_present == 0)
    return why.append("no GPU was found, neither by the NVIDIA driver nor by ROCm. ")
        .append(kCountAdvice);
  const bool one = devices.gpus_present == 1;
  why.append(one ? "1 GPU is" : std::to_string(devices.gpus_present).append(" GPUs are"));
  why.append(" here, but ").append(devices.narrowed_by);
  return why.append(one ? " hides it" : " hides them all").append(". Unset it, or pass a number");
}

}  // namespace

Result<int> count_workers(const std::string& nproc, const io::Devices& devices) {
  if (const auto number = parse_number(nproc)) {
    if (*number > 0) return *number;
    return refuse(nproc, "at least 1 is needed");
  }
  const int cpus = static_cast<int>(devices.cpus.size());
  const int gpus = static_cast<int>(devices.gpus.size());
  if (nproc == "cpu") return cpus;
  if (nproc == "auto") return gpus > 0 ? gpus : cpus;
  if (nproc == "gpu" && gpus > 0) return gpus;
  if (nproc == "gpu") return refuse(nproc, why_no_gpu(devices));

  std::string why;
  if (nproc == "xpu")
    return refuse(nproc, why.append("Intel GPUs cannot be counted. ").append(kCountAdvice));
  why.append("this is no number and no kind of device that can be counted. ").append(kCountAdvice);
  return refuse(printable(nproc), why);
}

Result<int> count_workers(const std::string& nproc) {
  if (nproc == "gpu" || nproc == "auto") return count_workers(nproc, io::look_for_devices());
  io::Devices devices;
  devices.cpus = io::allowed_cpus();
  return count_workers(nproc, devices);
}

}  // namespace regroup::runtime
