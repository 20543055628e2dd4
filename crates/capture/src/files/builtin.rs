//! The folders that are left out where no git says what to ignore.
