#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rappel_formats::fuzz::loki_index(bytes));
