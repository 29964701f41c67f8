// One function for each alternative of a variant, for std::visit:
//
//   std::visit(Cases{[](const Start& start) { ... }, [](const Stop& stop) { ... }}, effect);
#pragma once

namespace regroup {

template <class... Ts>
struct Cases : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Cases(Ts...) -> Cases<Ts...>;

}  // namespace regroup
