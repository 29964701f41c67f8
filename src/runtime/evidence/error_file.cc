#include "regroup/error_file.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>
#include <typeinfo>
#include <utility>

#include "io/loop/clock.h"
#include "io/loop/descriptor.h"
#include "wire/text/error_file.h"

namespace regroup {
namespace {

// ---- Files ----

auto failed(const std::string& verb, const std::string& path, int error) {
  return fail(ErrorKind::Io, fmt::format("cannot {} the error file {}: {}", verb, path,
                                         std::generic_category().message(error)));
}

// 0, or the error.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int write_in_place(const std::string& path, std::string_view bytes) {
  // Not blocking: a pipe without a reader must not hold up a process that is about to end.
  io::Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK));
  if (!file) return errno;
  if (const int error = write_all(file.get(), bytes)) return error;
  return file.close() ? 0 : errno;
}

int write_and_rename(const std::string& path, std::string_view bytes) {
  // The launcher may be another user; where the umask says no, it is no.
  constexpr mode_t kReadableByAll = 0644;
  constexpr int kTries = 100;
  std::string temporary;
  io::Descriptor file;
  for (int i = 0; i < kTries && !file; ++i) {
    temporary = fmt::format("{}.{}.{}", path, ::getpid(), i);
    file = io::Descriptor(::open(
        temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kReadableByAll));
    if (!file && errno != EEXIST) return errno;
  }
  if (!file) return EEXIST;
  int error = write_all(file.get(), bytes);
  if (!file.close() && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary.c_str());
  return error;
}

Result<void> write_or_replace(const std::string& path, const std::string& json) {
  std::error_code ignored;  // Without the directory the next step fails, and says so.
  const auto directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) std::filesystem::create_directories(directory, ignored);

  const auto before = std::filesystem::symlink_status(path, ignored).type();
  const bool replaceable = before == std::filesystem::file_type::regular ||
                           before == std::filesystem::file_type::not_found;
  int error = replaceable ? write_and_rename(path, json) : EBUSY;
  if (error != 0 && before != std::filesystem::file_type::not_found)
    error = write_in_place(path, json);
  if (error != 0) return failed("write", path, error);
  return {};
}

// Which file it is and which content: another one after every write.
struct Version {
  bool exists = false;
  ino_t inode = 0;
  std::int64_t seconds = 0;
  std::int64_t nanos = 0;
  off_t size = 0;
  friend bool operator==(const Version&, const Version&) = default;
};

Version version_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return {true, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_size};
}

// ---- Exceptions ----

std::string demangled(const std::type_info* type) {
  if (type == nullptr) return "unknown exception";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), std::free);
  std::string_view plain = name ? name.get() : type->name();
  // What throw_with_nested makes of the exception it is given.
  constexpr std::string_view kWrapper = "std::_Nested_exception<";
  if (plain.starts_with(kWrapper) && plain.ends_with('>'))
    plain = plain.substr(kWrapper.size(), plain.size() - kWrapper.size() - 1);
  return std::string(plain);
}

// What is thrown, and what it was thrown from, the outermost first.
struct Described {
  std::string message;
  std::string chain;
};

void describe(const std::exception_ptr& thrown, Described& described) {
  constexpr std::size_t kLongestChain = 64 << 10;
  const auto add = [&](const std::string& line) {
    if (described.message.empty()) described.message = line;
    described.chain += (described.chain.empty() ? "" : "caused by ") + line + "\n";
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& exception) {
    add(demangled(&typeid(exception)) + ": " + exception.what());
    const auto* nested = dynamic_cast<const std::nested_exception*>(&exception);
    if (nested != nullptr && nested->nested_ptr() && described.chain.size() < kLongestChain)
      describe(nested->nested_ptr(), described);
  } catch (const char* text) {
    add(std::string("const char*: ") + text);
  } catch (...) {
    add(demangled(abi::__cxa_current_exception_type()) + ": it is no std::exception");
  }
}

void tell(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

void leave_behind(const std::string& path, const Version& at_start, const Described& described) {
  if (path.empty()) return;
  if (version_of(path) != at_start) {
    const auto other = read_error_file(path);
    if (other && *other) {
      tell("the error file " + path + " is kept as it is: it was written before this failure");
      return;
    }
  }
  const auto written =
      write_error_file(path, {.message = described.message, .call_stack = described.chain});
  if (!written) tell(written.error().message);
}

}  // namespace

Result<ErrorFile> parse_error_file(std::string_view json) {
  auto decoded = wire::decode_error_file(json);
  if (!decoded) return tl::unexpected(std::move(decoded.error()));
  return ErrorFile{.message = std::move(decoded->message),
                   .call_stack = std::move(decoded->call_stack),
                   .timestamp = decoded->timestamp,
                   .error_code = decoded->error_code,
                   .structured = decoded->structured,
                   .raw = std::string(json)};
}

Result<std::optional<ErrorFile>> read_error_file(const std::string& path) {
  const io::Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return failed("open", path, errno);
  }
  std::string json;
  // One byte more than allowed, so that a longer file can be told from one that just fits.
  while (json.size() <= wire::kErrorFileBytes) {
    char piece[16 << 10];
    const ssize_t count = ::read(descriptor.get(), piece, sizeof piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return failed("read", path, errno);
    if (count <= 0) break;
    json.append(piece, static_cast<std::size_t>(count));
  }
  if (json.empty()) return std::nullopt;
  auto file = parse_error_file(json);
  if (!file)
    return fail(file.error().kind,
                fmt::format("the error file {} cannot be used: {}", path, file.error().message));
  return std::optional(*std::move(file));
}

Result<void> write_error_file(const std::string& path, const ErrorFile& file) {
  constexpr std::int64_t kMicrosPerSecond = 1'000'000;
  const std::string json = wire::encode_error_file(
      {.message = file.message,
       .call_stack = file.call_stack,
       .timestamp = file.timestamp.value_or(io::utc_micros() / kMicrosPerSecond),
       .error_code = file.error_code});
  return write_or_replace(path, json);
}

Result<void> copy_error_file(const std::string& path, const ErrorFile& file, int exit_code) {
  return write_or_replace(path, wire::with_error_code(file.raw, exit_code));
}

int record(const std::function<int()>& body) {
  const char* const variable = std::getenv("TORCHELASTIC_ERROR_FILE");
  const std::string path = variable != nullptr ? variable : "";
  const Version at_start = version_of(path);
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    throw;  // The thread is being cancelled; swallowing that would abort the process.
  } catch (...) {
    Described described;
    describe(std::current_exception(), described);
    tell(described.chain.substr(0, described.chain.size() - 1));
    leave_behind(path, at_start, described);
    return 1;
  }
}

}  // namespace regroup
