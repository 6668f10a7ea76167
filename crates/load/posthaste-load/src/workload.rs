//! `posthaste-load workload`.

use clap::{Args, Subcommand};
use posthaste_load_workload::{BUILTIN, MIXES, load_mix};

use crate::failure::Failure;

/// Flags of `workload`.
#[derive(Args)]
pub struct WorkloadArgs {
    #[command(subcommand)]
    what: WorkloadAction,
}

#[derive(Subcommand)]
enum WorkloadAction {
    /// Name and describe the built-in workloads.
    List,
    /// Print a workload's file, as a start for your own.
    Show {
        /// The workload's name, or a file to check.
        name: String,
    },
}

/// Lists or shows.
pub fn main(args: &WorkloadArgs) -> Result<(), Failure> {
    match &args.what {
        WorkloadAction::List => {
            for (name, _) in BUILTIN.iter().chain(MIXES) {
                let mix = load_mix(name).map_err(Failure::failed)?;
                println!("{name:<26}{}", mix.description);
            }
        }
        WorkloadAction::Show { name } => print!("{}", load_mix(name).map_err(Failure::usage)?.source),
    }
    Ok(())
}
