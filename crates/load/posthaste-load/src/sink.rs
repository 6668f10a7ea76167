//! `posthaste-load sink`.

use std::time::Duration;

use clap::Args;
use posthaste_load_drive::interrupt;
use posthaste_load_null_server::sink;
use posthaste_load_text::quantity::show_bytes;

use crate::failure::Failure;

/// Flags of `sink`.
#[derive(Args)]
pub struct SinkArgs {
    /// Address to listen on.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2525")]
    listen: String,
}

/// Accepts mail until Ctrl-C, and prints what it has received.
pub fn main(args: &SinkArgs) -> Result<(), Failure> {
    let (address, taken) =
        sink(&args.listen).map_err(|e| Failure::failed(format!("{}: {e}", args.listen)))?;
    println!("ready {address}");
    interrupt::listen();
    while !interrupt::happened() {
        std::thread::sleep(Duration::from_millis(200));
    }
    println!(
        "{} messages ({}) for {} recipients; {} altered, {} not of the instrument",
        taken.messages(),
        show_bytes(taken.bytes()),
        taken.recipients(),
        taken.altered(),
        taken.foreign()
    );
    if taken.altered() > 0 { Err(Failure::Printed) } else { Ok(()) }
}
