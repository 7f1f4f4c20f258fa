// A contender written in another language: the same program, its library's calls made through C function pointers.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Each puts a sentence of at most 511 bytes into `said` where it cannot, and leaves it alone for good.
typedef struct compare_callbacks {
  void (*start)(int rank, int ranks, const char* folder, const char* address, char* said);
  void (*version)(char* said);
  /// Whether the library can do this operation.
  void (*lacks)(const char* collective, const char* type, const char* op, int in_place, int root, uint64_t count,
                char* said);
  /// Buffers of one slot, called for slots 0, 1, … in order, and after lacks.
  void (*slot)(void* send, void* recv, uint64_t send_bytes, uint64_t recv_bytes, char* said);
  void (*finish)(void);
  /// Operations on the slots in turn; `checked`: the result will be looked at, and the input must be left alone.
  void (*run)(uint64_t operations, int checked, char* said);
} compare_callbacks;

/// As serve() in contender.h. The callbacks must outlive the call.
int compare_serve(const compare_callbacks* callbacks, int argc, char** argv);

#ifdef __cplusplus
}
#endif
