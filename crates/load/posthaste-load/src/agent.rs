//! `posthaste-load agent`.

use crate::Trouble;
use crate::server::read_token;
use clap::Args;
use posthaste_load_measure::agent::{AgentOptions, serve};
use std::net::TcpListener;
use std::path::PathBuf;

/// Flags of `agent`.
#[derive(Args)]
pub struct AgentArgs {
    /// Address to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8117")]
    listen: String,
    /// File with the token (8 characters or more) that instruments must send.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// The process to report, unless the instrument names one.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// The control group to report.
    #[arg(long, value_name = "DIR")]
    server_cgroup: Option<PathBuf>,
}

/// Serves until it is stopped.
pub fn main(args: &AgentArgs) -> Result<(), Trouble> {
    let options = AgentOptions {
        token: read_token(&args.token_file)?,
        pid: args.server_pid,
        cgroup: args.server_cgroup.clone(),
    };
    let listener =
        TcpListener::bind(&args.listen).map_err(|e| Trouble::failed(format!("{}: {e}", args.listen)))?;
    println!("ready {}", listener.local_addr().map_err(Trouble::failed)?);
    serve(&listener, &options, |what| eprintln!("{what}")).map_err(Trouble::failed)
}
