//! `posthaste`: the server and its administration. Configuration, wiring, signals and the command
//! line; no protocol and no storage logic.
//!
//! Nothing but the program uses this library. A program is compiled only after all libraries that
//! it is linked with, and a library already while these are optimised. So this one is compiled
//! beside the largest of them, and the second processor has work to the end of a build.

mod audit;
mod cli;
mod closed_pipe;
mod cluster;
mod command;
mod config;
mod data_directory;
mod failure;
mod logging;
mod memory;
mod open;
mod password;
mod private;
mod privileges;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use logging::for_terminal;

/// The whole program: reads the command line and does the command.
pub fn run() -> ExitCode {
    closed_pipe::end_in_silence();
    private::for_owner_alone();
    memory::give_large_blocks_back();
    let cli = cli::Cli::parse();
    let outcome = command::run(cli);
    logging::flush();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::from(closed_pipe::EXIT_CODE),
        Err(failure) => {
            // If the reason cannot be printed, the exit code still reports a failure.
            let _ = writeln!(std::io::stderr(), "posthaste: {}", for_terminal(&failure.to_string()));
            ExitCode::from(failure.exit_code())
        }
    }
}
