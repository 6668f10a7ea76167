//! `posthaste`: the server and its administration. Configuration, wiring, signals and the command
//! line; no protocol and no storage logic.

mod audit;
mod cli;
mod closed_pipe;
mod cluster;
mod command;
mod config;
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

fn main() -> ExitCode {
    closed_pipe::end_in_silence();
    private::for_owner_alone();
    memory::give_large_blocks_back();
    let cli = cli::Cli::parse();
    match command::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::from(closed_pipe::EXIT_CODE),
        Err(failure) => {
            // If the reason cannot be printed, the exit code still reports a failure.
            let _ = writeln!(std::io::stderr(), "posthaste: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
