// Boost.JSON is headers; what they instantiate is compiled once, here.
#include <boost/json/src.hpp>
