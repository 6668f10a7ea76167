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
    let act = Act::of(&cli.command, &config);
    let outcome = run_with(config, cli);
    if let Some(act) = act {
        act.ended(&outcome);
    }
    outcome
}

fn run_with(config: Config, cli: Cli) -> Result<()> {
    match cli.command {
        Command::Serve(options) => serve::run(config, cli.common, options),
        Command::Account(options) => blocking(account::run(config, options)),
        Command::Acl(options) => blocking(acl::run(config, options)),
        Command::Domain(options) => blocking(domain::run(config, options)),
        Command::Group(options) => blocking(group::run(config, options)),
        Command::Route(options) => blocking(route::run(config, options)),
        Command::Import(options) => blocking(import::run(config, options)),
        Command::Convert(options) => blocking(convert::run(config, options)),
        Command::Queue(options) => blocking(queue::run(config, options)),
        Command::Report(options) => blocking(report::run(config, options)),
        Command::Retention(options) => blocking(retention::run(config, options)),
        Command::Export(options) => blocking(export::run(config, options)),
        Command::Backup(options) => blocking(backup::run(config, options)),
        Command::Restore(options) => blocking(restore::run(config, options)),
        Command::Check(options) => blocking(check::run(config, options)),
        Command::Engine(options) => blocking(engine::run(config, options)),
        Command::CopyStore(options) => blocking(copy_store::run(config, &cli.common, options)),
        Command::Sieve(options) => blocking(scripts::run(config, options)),
        Command::Config(_) => Ok(()),
    }
}

fn show_config(common: &Common, default: bool) -> Result<()> {
    if default {
        print!("{}", config::DEFAULT);
        return Ok(());
    }
    // Reading it is the test; printing it shows the values that a server started here would use.
    println!("{:#?}", configuration(common)?.without_secrets());
    Ok(())
}

/// Runs an administrative command: one thread is enough for it.
fn blocking(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
