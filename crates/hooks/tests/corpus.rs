//! Command lines as the fuzz target reads them: the kept corpus and thousands of variations.

use rappel_hooks::fuzz;
use rappel_testing::corpus::run;

#[test]
fn command_lines() {
    run("command_line", 300, fuzz::command_line);
}
