// libtutti_kernels.so: the kernels' image and their names, data alone. cmake/kernels.cmake compiles the image, and says
// where it is and how long.
#include "src/executors/cuda/module/module_table.h"

__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".hidden tutti_kernel_image\n"
    ".globl tutti_kernel_image\n"
    "tutti_kernel_image:\n"
    ".incbin \"" TUTTI_KERNEL_IMAGE
    "\"\n"
    ".byte 0\n"  // an image that is text ends with it
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char tutti_kernel_image[];

TUTTI_KERNEL_MODULE(tutti_kernel_image, TUTTI_KERNEL_IMAGE_BYTES);
