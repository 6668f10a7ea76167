//! `posthaste-load agent`.

use std::net::TcpListener;
use std::path::PathBuf;

use clap::Args;
use posthaste_load_measure::agent::{AgentOptions, serve};

use crate::failure::Failure;
use crate::server::read_token;

/// Flags of `agent`.
#[derive(Args)]
pub struct AgentArgs {
    /// Address to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8117")]
    listen: String,
    /// File with the token that instruments must know: 32 characters or more, readable by its
    /// owner only. `(umask 077; openssl rand -hex 32 > FILE)` creates one.
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// The process to report, unless the instrument names one.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// The control group to report.
    #[arg(long, value_name = "DIR")]
    server_cgroup: Option<PathBuf>,
    /// The folder of the server's mail: report how busy its disk is.
    #[arg(long, value_name = "DIR")]
    server_data: Option<PathBuf>,
}

/// Serves until it is stopped.
pub fn main(args: &AgentArgs) -> Result<(), Failure> {
    let options = AgentOptions {
        token: read_token(&args.token_file)?,
        pid: args.server_pid,
        cgroup: args.server_cgroup.clone(),
        data: args.server_data.clone(),
    };
    let listener =
        TcpListener::bind(&args.listen).map_err(|e| Failure::failed(format!("{}: {e}", args.listen)))?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    if !address.ip().is_loopback() {
        eprintln!(
            "note: figures are not encrypted on their way; to keep them private, listen on 127.0.0.1 and forward the \
             port by ssh -L"
        );
    }
    println!("ready {}", address);
    serve(&listener, &options, |what| eprintln!("{what}"))
}
