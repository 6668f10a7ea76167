//! One file per command. This file selects the command to run.

mod account;
mod acl;
mod backup;
mod check;
mod configuration;
mod convert;
mod copy_store;
mod credentials;
mod domain;
mod ends;
mod engine;
mod export;
mod group;
mod import;
mod interruption;
mod mailbox_referral;
mod names;
mod queue;
mod referral;
mod report;
mod restore;
mod retention;
mod route;
mod scripts;
mod serve;
mod sieve;

use std::pin::Pin;

use crate::audit::Act;
use crate::cli::{Cli, Command, Common, Sieve};
use crate::command::configuration::configuration;
use crate::config::{self, Config};
use crate::failure::Result;

/// Runs a command to its end.
pub fn run(cli: Cli) -> Result<()> {
    if let Command::Config(options) = &cli.command {
        return show_config(&cli.common, options.default);
    }
    // Works on files alone.
    if let Command::Sieve(options @ (Sieve::Check { .. } | Sieve::Test(_))) = &cli.command {
        return sieve::run(options);
    }
    let config = configuration(&cli.common)?;
    let act = Act::of(&cli.command, std::env::args_os().skip(1), &config);
    let outcome = run_with(config, cli);
    if let Some(act) = act {
        act.ended(&outcome);
    }
    outcome
}

fn run_with(config: Config, cli: Cli) -> Result<()> {
    match cli.command {
        Command::Serve(options) => serve::run(config, cli.common, options),
        Command::Account(options) => blocking(Box::pin(account::run(config, options))),
        Command::Acl(options) => blocking(Box::pin(acl::run(config, options))),
        Command::Domain(options) => blocking(Box::pin(domain::run(config, options))),
        Command::Group(options) => blocking(Box::pin(group::run(config, options))),
        Command::Route(options) => blocking(Box::pin(route::run(config, options))),
        Command::Import(options) => blocking(Box::pin(import::run(config, options))),
        Command::Convert(options) => blocking(Box::pin(convert::run(config, options))),
        Command::Queue(options) => blocking(Box::pin(queue::run(config, options))),
        Command::Report(options) => blocking(Box::pin(report::run(config, options))),
        Command::Retention(options) => blocking(Box::pin(retention::run(config, options))),
        Command::Export(options) => blocking(Box::pin(export::run(config, options))),
        Command::Backup(options) => blocking(Box::pin(backup::run(config, options))),
        Command::Restore(options) => blocking(Box::pin(restore::run(config, options))),
        Command::Check(options) => blocking(Box::pin(check::run(config, options))),
        Command::Engine(options) => blocking(Box::pin(engine::run(config, options))),
        Command::CopyStore(options) => blocking(Box::pin(copy_store::run(config, &cli.common, options))),
        Command::Sieve(options) => blocking(Box::pin(scripts::run(config, options))),
        Command::Config(_) => Ok(()),
    }
}

fn show_config(common: &Common, default: bool) -> Result<()> {
    if default {
        print!("{}", config::DEFAULT);
        return Ok(());
    }
    // Reading it is the test; printing it shows the values that a server started here would use.
    println!("{}", configuration(common)?.shown());
    Ok(())
}

/// The work of a command. It is boxed so that its code is compiled once. Otherwise the compiler
/// repeats it in each of the three places where tokio polls it: a third of this crate's code.
type Work<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// Runs an administrative command: one thread is enough for it.
fn blocking(work: Work<'_>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
