//! `posthaste`: the server and its administration. Configuration, wiring, signals and the command
//! line; no protocol and no storage logic.

mod audit;
mod cli;
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
    private::for_owner_alone();
    memory::give_large_blocks_back();
    let cli = cli::Cli::parse();
    match command::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Where nobody can be told why, the exit code still says so.
            let _ = writeln!(std::io::stderr(), "posthaste: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
