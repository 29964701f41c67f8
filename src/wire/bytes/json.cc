// Boost.JSON is header-only; this file compiles what it instantiates, once.
#include <boost/json/src.hpp>
