//! The program `posthaste`. All its code is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    posthaste::run()
}
