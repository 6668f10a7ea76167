//! One file per command. This file selects the command to run, and reads its configuration.

mod account;
mod acl;
mod backup;
mod check;
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
mod queue;
mod referral;
mod report;
mod restore;
mod retention;
mod route;
mod scripts;
mod serve;
mod sieve;

use std::path::Path;

use posthaste_mail_model::MailboxName;

use crate::audit::Act;
use crate::cli::{Cli, Command, Common, Sieve};
use crate::config::{self, Config};
use crate::failure::{Failure, Result};
use crate::memory;
use crate::private;

/// The file that is read when none is named.
const USUAL_FILE: &str = "posthaste.toml";

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

/// The configuration: the named file, or the usual one if it is there, or the defaults; then the
/// command line.
pub fn configuration(common: &Common) -> Result<Config> {
    let usual = Path::new(USUAL_FILE);
    let file = match &common.config {
        Some(file) => Some(file.as_path()),
        None if usual.exists() => {
            private::trusted_here(usual)?;
            Some(usual)
        }
        None => None,
    };
    let mut config = match file {
        Some(file) => Config::load(file)?,
        None => Config::default(),
    };
    if let Some(file) = file
        && config::has_password(&config.engine)
    {
        private::tighten_secret("engine", file)?;
    }
    if let Some(data) = &common.data {
        config.data.clone_from(data);
    }
    if let Some(engine) = &common.engine {
        config.engine.clone_from(engine);
    }
    if let Some(bodies) = &common.bodies {
        config.bodies.clone_from(bodies);
    }
    memory::set_message_size(&mut config);
    Ok(config)
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

/// An account name as the directory knows it: one without a domain gets the configured one.
fn full_name(name: &str, config: &Config) -> String {
    if name.contains('@') { name.to_owned() } else { format!("{name}@{}", config.domain) }
}

/// A mailbox name from the command line.
fn mailbox_name(text: &str) -> Result<MailboxName> {
    MailboxName::new(text).map_err(|source| Failure::Name { name: text.to_owned(), source })
}
