//! `posthaste-load workload`.

use clap::{Args, Subcommand};
use posthaste_load_workload::{BUILTIN, MIXES, load_mix};

use crate::trouble::Trouble;

/// Flags of `workload`.
#[derive(Args)]
pub struct WorkloadArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Name and describe the built-in workloads.
    List,
    /// Print a workload's file, as a start for your own.
    Show {
        /// The workload's name, or a file to check.
        name: String,
    },
}

/// Lists or shows.
pub fn main(args: &WorkloadArgs) -> Result<(), Trouble> {
    match &args.what {
        What::List => {
            for (name, _) in BUILTIN.iter().chain(MIXES) {
                let mix = load_mix(name).map_err(Trouble::failed)?;
                println!("{name:<26}{}", mix.description);
            }
        }
        What::Show { name } => print!("{}", load_mix(name).map_err(Trouble::usage)?.source),
    }
    Ok(())
}
