// The other process of tests that need one. Usage: cuda_owner MODE, with a socket as descriptor 3.
//   legacy    allocates memory with 1, 2, 3, 4 in it and sends its handle; frees it on 'f' and says so
//   physical  the same with physical memory: sends its size and a descriptor
//   exit      asks the driver for something once main has returned: exits with 0 where it answers CUDA_ERROR_DEINITIALIZED
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "src/cuda/context.h"
#include "src/cuda/memory.h"

namespace {

using namespace tutti::cuda;  // NOLINT: a program of one file

constexpr int kSocket = 3;
constexpr std::int32_t kValues[] = {1, 2, 3, 4};

[[noreturn]] void give_up(const tutti::Status& status) {
  std::fprintf(stderr, "cuda_owner: %s\n", status.text().c_str());
  std::_Exit(1);
}

template <typename T>
T take(tutti::Result<T> result) {
  if (!result.ok()) give_up(result.status());
  return std::move(*result);
}

template <typename T>
void send(const T& value) {
  if (::send(kSocket, &value, sizeof(value), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(value))) std::_Exit(2);
}

void send_descriptor(int descriptor) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
  if (::sendmsg(kSocket, &message, MSG_NOSIGNAL) != 1) std::_Exit(2);
}

void fill(const DriverApi& api, DevicePointer address) {
  api.cuMemcpyHtoDAsync_v2(address, kValues, sizeof(kValues), nullptr);
  api.cuStreamSynchronize(nullptr);
}

/// Until the test closes its end, or asks for something; '\0' at the end.
char listen() {
  char command = 0;
  return ::recv(kSocket, &command, 1, 0) == 1 ? command : '\0';
}

void own_legacy(const Driver& driver, const Context& context) {
  DeviceMemory memory = take(DeviceMemory::allocate(context, sizeof(kValues)));
  fill(driver.api(), memory.address());
  IpcMemoryHandle handle;
  driver.api().cuIpcGetMemHandle(&handle, memory.address());
  send(handle);
  if (listen() != 'f') return;
  static_cast<void>(memory.free(context));
  send('f');
  listen();
}

void own_physical(const Driver& driver, const Context& context) {
  const PhysicalMemory memory = take(PhysicalMemory::create(context, take(PhysicalMemory::granularity(context))));
  const MappedMemory mapped = take(MappedMemory::map(memory));
  fill(driver.api(), mapped.address());
  send(std::uint64_t{memory.bytes()});
  send_descriptor(take(memory.export_descriptor()).get());
  listen();
}

void ask_at_exit() {
  int device = 0;
  const DriverResult result = (*Driver::get())->api().cuCtxGetDevice(&device);
  std::_Exit(result == DriverResult::deinitialized ? 0 : 3);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode == "exit") std::atexit(ask_at_exit);  // before the driver's own, so that it runs after
  const Driver& driver = *take(Driver::get());
  const Context context = take(Context::primary(driver, 0));
  const ContextScope scope = take(ContextScope::enter(context));
  if (mode == "legacy") own_legacy(driver, context);
  if (mode == "physical") own_physical(driver, context);
  return 0;
}
