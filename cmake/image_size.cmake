# cmake -DIMAGE=file -DHEADER=file -P image_size.cmake: a header that says where a kernels' image is and how long.
file(SIZE ${IMAGE} bytes)
file(WRITE ${HEADER} "#define TUTTI_KERNEL_IMAGE \"${IMAGE}\"\n#define TUTTI_KERNEL_IMAGE_BYTES ${bytes}\n")
