/* A transport of ABI 2, as far as the loader looks at it. */
#include <stddef.h>

struct {
  size_t size;
  unsigned abi;
  const char* name;
} tutti_transport_plugin = {64, 2, "old"};
