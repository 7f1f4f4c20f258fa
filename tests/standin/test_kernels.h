// Parameters of the kernels in test_kernels.cu: one struct each, the same for all compilers.
#pragma once

namespace standin {

struct AddParameters {
  int* out;
  const int* a;
  const int* b;
  unsigned long long count;
};
struct CopyParameters {
  unsigned char* to;
  const unsigned char* from;
  unsigned long long bytes;
};
struct WordParameters {
  unsigned* word;
  unsigned value;
};
struct OrderParameters {
  unsigned* next;
  unsigned* order;
};
struct BlockSumParameters {
  unsigned long long* out;
  unsigned long long rounds;
};
struct LineParameters {
  void* lines;  ///< 16 bytes each
  unsigned* out;
  unsigned count;
  unsigned tag;
};

}  // namespace standin
