// What the tests' precompiled headers are compiled with: as programs are, which tests are.
int main() {}
