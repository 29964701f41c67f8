// Asio's own code, compiled once, here; everybody else includes only its declarations.
#include <boost/asio/impl/src.hpp>
