// A driver that is too old: it has a version, and little else.
extern "C" __attribute__((visibility("default"))) unsigned cuDriverGetVersion(int* version) {
  *version = 11040;
  return 0;
}
extern "C" __attribute__((visibility("default"))) unsigned cuInit(unsigned) { return 0; }
