#include "core/coordinator/coordinator.h"
