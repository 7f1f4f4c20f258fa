// A build without a solver: nobody makes a program where has_solver() is false.
#include "tools/plan/synthesis/linear_program.h"

namespace tutti::synthesis {

bool has_solver() { return false; }

struct LinearProgram::Model {};

LinearProgram::LinearProgram(const std::vector<double>&) {}
LinearProgram::~LinearProgram() = default;
void LinearProgram::add(const Loads&) {}
bool LinearProgram::solve() { return false; }
double LinearProgram::sum() const { return 0; }
std::vector<double> LinearProgram::columns() const { return {}; }
std::vector<double> LinearProgram::prices() const { return {}; }

}  // namespace tutti::synthesis
