//! What an intent's file may hold, as the fuzz target reads it: the kept corpus and thousands of
//! variations.

use rappel_capture::fuzz;
use rappel_testing::corpus::run;

#[test]
fn intents() {
    run("intent", 1000, fuzz::intent);
}
