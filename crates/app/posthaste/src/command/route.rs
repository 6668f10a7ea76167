//! `posthaste route`: where mail for an address goes, and why. It follows the same steps as
//! delivery.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::Arc;

use posthaste_authentication::{Senders, srs};
use posthaste_directory::{Directory, Recipient, ResolveError, Target, normal_domain};
use posthaste_filter::SiteScripts;
use posthaste_smtp_server::address::{Literal, literal};
use posthaste_smtp_server::postmaster::{Instead, PostmasterNames};
use serde_json::json;

use crate::cli;
use crate::command::names::full_name;
use crate::command::serve::hostname;
use crate::config::{Config, RouteAccept};
use crate::failure::{Failure, Result};
use crate::logging::{for_line, json_line};
use crate::open;

/// An address on the route of mail, and what happens to mail for it.
struct RouteEntry {
    depth: usize,
    address: String,
    what: String,
}

pub async fn run(config: Config, command: cli::Route) -> Result<()> {
    let opened = open::existing(&config).await?;
    let relays = opened.relays(&config).await?;
    let address = addressed(&command.address, &config);
    let senders = Senders::new(Arc::clone(opened.store.engine()));
    let bounces = Bounces { senders, now: opened.store.unix_ms() / 1000 };
    let site = config.sieve.site()?;
    let ways = RouteInputs { directory: &opened.directory, bounces, config: &config, relays, site };
    let steps = ways.steps(&address).await?;
    let mut out = std::io::stdout().lock();
    for RouteEntry { depth, address, what } in &steps {
        let line = match command.json {
            true => json_line(&json!({"depth": depth, "address": address, "what": what})),
            false => {
                format!("{:indent$}{} {}", "", for_line(address), for_line(what), indent = 2 * depth)
            }
        };
        writeln!(out, "{line}")?;
    }
    let is_refused = steps.first().is_some_and(|first| first.what.starts_with("is refused"));
    if is_refused || stands_for_nobody(&opened.directory, &address).await? {
        return Err(Failure::Incomplete(format!("mail for {address} is refused")));
    }
    Ok(())
}

/// An address from the command line. One without a domain is of the configured one. But a bare
/// `postmaster` is the server's (RFC 5321 §4.5.1).
fn addressed(text: &str, config: &Config) -> String {
    if text.eq_ignore_ascii_case("postmaster") { text.to_owned() } else { full_name(text, config) }
}

/// Whether the address is that of a group without anybody who takes mail.
async fn stands_for_nobody(directory: &Directory, address: &str) -> Result<bool> {
    let Ok(Target::Group(group)) = directory.target(address).await else { return Ok(false) };
    match directory.expand(&group).await {
        Ok(expansion) => Ok(expansion.here.is_empty() && expansion.elsewhere.is_empty()),
        Err(ResolveError::Directory(error)) => Err(error.into()),
        // Too many members.
        Err(_) => Ok(true),
    }
}

/// The inputs of the decision about mail for an address.
struct RouteInputs<'w> {
    directory: &'w Directory,
    bounces: Bounces,
    config: &'w Config,
    /// Whether this server sends mail to other domains.
    relays: bool,
    /// The administrator's scripts.
    site: SiteScripts,
}

impl RouteInputs<'_> {
    /// The target of an address. For a postmaster whose address nobody has, also who gets that
    /// mail, and why.
    async fn target(&self, address: &str) -> (std::result::Result<Target, ResolveError>, Option<String>) {
        let missing = match self.directory.target(address).await {
            Err(missing) => missing,
            found => return (found, None),
        };
        let (host, configured) = (hostname(self.config), self.config.postmaster());
        let (domain, configured) = (Some(&*self.config.domain), configured.as_deref());
        let is_shared = self.directory.shared_domains().contains(&host.to_ascii_lowercase());
        let names = PostmasterNames { host: &host, domain, configured, is_shared };
        let (found, instead) = names.find(self.directory, address, missing).await;
        let account = found.as_ref().map_or("", Target::name);
        let postmaster = instead.map(|instead| match instead {
            Instead::Address(postmaster) => postmaster,
            Instead::Configured(postmaster) => format!("{postmaster} (the setting `postmaster`)"),
            Instead::Chosen(None) => format!("{account} (nobody has the address)"),
            Instead::Chosen(Some(postmaster)) => {
                format!("{account} (the setting `postmaster` names {postmaster}, which takes no mail here)")
            }
        });
        (found, postmaster)
    }

    /// Mail for a host by its address (RFC 5321 §4.1.3). Only a connection shows which addresses
    /// are this server's.
    fn at_an_address(&self, local: &str, literal: Literal) -> String {
        let Literal::Address(host) = literal else {
            return "is refused: this server does not know such an address literal".to_owned();
        };
        let here = format!("At this server's own address it is {local}@{}", self.config.domain);
        match self.relays && self.config.relay.to_addresses {
            true => format!(
                "is at an address: sent to {host} for users who logged in (`relay.to_addresses`). {here}"
            ),
            false => format!("is refused: nothing is sent to {host} (`relay.to_addresses`). {here}"),
        }
    }

    /// The address and all that follows from it, the members of a group below it.
    async fn steps(&self, address: &str) -> Result<Vec<RouteEntry>> {
        let Self { directory, bounces, config, relays, site } = self;
        let (mut steps, mut met) = (Vec::new(), HashSet::new());
        let mut next = vec![(0, address.to_owned(), None)];
        while let Some((depth, address, sender)) = next.pop() {
            let mut push = |what: String| steps.push(RouteEntry { depth, address: address.clone(), what });
            if let Some((local, literal)) = literal(&address) {
                push(self.at_an_address(local, literal));
                continue;
            }
            if let Some(original) = bounces.original(directory, &address).await? {
                match original {
                    Some(to) => {
                        push(format!(
                            "is the sender of forwarded mail, in place of {to}: reports go to {to}"
                        ));
                        next.push((depth + 1, to, None));
                    }
                    None => push(
                        "is refused: this server did not make that sender address, or made it too long ago"
                            .to_owned(),
                    ),
                }
                continue;
            }
            let (target, postmaster) = self.target(&address).await;
            match target {
                Ok(target) if !met.insert(target.name().to_owned()) => push(match target {
                    Target::Account(_) => format!("is {}, which gets the message already", target.name()),
                    Target::Group(_) => format!("is the group {} again", target.name()),
                }),
                Ok(Target::Group(group)) => {
                    let whole =
                        if group.address == address { String::new() } else { format!(" {}", group.address) };
                    let owner = group.owner.as_deref().map(|owner| format!("; reports go to {owner}"));
                    push(format!(
                        "is the group{whole} of {}{}",
                        group.members.len(),
                        owner.unwrap_or_default()
                    ));
                    next.extend(group.members.iter().rev().map(|to| (depth + 1, to.clone(), None)));
                }
                Ok(Target::Account(recipient)) => {
                    let what = account(&recipient, site);
                    push(match postmaster {
                        Some(postmaster) => format!("means {postmaster}, which {what}"),
                        None => what,
                    });
                    let forward = recipient.account.forward.iter().flat_map(|forward| &forward.to);
                    let sender = Some(recipient.account.name.clone());
                    next.extend(forward.rev().map(|to| (depth + 1, to.clone(), sender.clone())));
                }
                // RCPT decides which mail of untrusted hosts is accepted. This is the route of
                // our own mail.
                Err(ResolveError::NotLocal) => push(elsewhere(&address, config, *relays)),
                Err(ResolveError::Directory(error)) => return Err(error.into()),
                Err(error) => {
                    let keeps = sender.map(|account| format!("; {account} keeps the message"));
                    push(format!("is refused: {error}{}", keeps.unwrap_or_default()));
                }
            }
        }
        Ok(steps)
    }
}

/// Reports about mail that was sent on under a sender of ours (SRS).
struct Bounces {
    senders: Senders,
    /// Unix seconds.
    now: u64,
}

impl Bounces {
    /// The address that gets the reports for a rewritten sender. `Some(None)` if this server did
    /// not make it; none if it has another form, or belongs to an account.
    async fn original(&self, directory: &Directory, address: &str) -> Result<Option<Option<String>>> {
        let is_free = srs::is_rewritten(address)
            && matches!(directory.resolve(address).await, Err(ResolveError::NoSuchUser));
        Ok(if is_free { Some(self.senders.original(address, self.now).await?) } else { None })
    }
}

/// The treatment of mail by an account.
fn account(Recipient { account, address, detail }: &Recipient, site: &SiteScripts) -> String {
    let mut what = match (address.as_str() == account.name, detail) {
        (true, _) => "is an account".to_owned(),
        (false, Some(detail)) => format!("is {} (`{detail}` is a detail)", account.name),
        (false, None) => format!("is an alias of {}", account.name),
    };
    match &account.forward {
        Some(forward) if !forward.keep => what += ": mail is forwarded, no copy stays",
        Some(_) => what += ": mail is forwarded, a copy stays",
        None => {}
    }
    if account.forward.as_ref().is_none_or(|forward| forward.keep) {
        let scripts = site.around(account.scripts.active.as_deref());
        let scripts: Vec<String> = scripts.map(|name| format!("'{name}'")).collect();
        what += &match scripts.as_slice() {
            [] => ": INBOX".to_owned(),
            [script] => format!(": filed by the Sieve script {script}"),
            scripts => format!(": filed by the Sieve scripts {}", scripts.join(", ")),
        };
    }
    what
}

fn elsewhere(address: &str, config: &Config, relays: bool) -> String {
    let relay = &config.relay;
    let domain = address.rsplit_once('@').and_then(|(_, domain)| normal_domain(domain).ok());
    let Some(domain) = domain else {
        return "is refused: it has no domain that mail could be sent to".to_owned();
    };
    if !relays {
        return format!(
            "is refused: {domain} is not a domain of this server, and no mail is sent to other domains: {}",
            open::TO_RELAY
        );
    }
    let of_domain =
        relay.routes.iter().find(|route| normal_domain(&route.domain).ok().as_ref() == Some(&domain));
    match of_domain {
        Some(route) if route.accept == RouteAccept::All => {
            format!("is on another server: sent to {} (`relay.routes`)", route.host)
        }
        Some(route) => format!("is in another domain: sent to {} (`relay.routes`)", route.host),
        None if relay.smarthost.is_empty() => {
            format!("is in another domain: sent to the hosts that DNS names for {domain}")
        }
        None => format!("is in another domain: sent to {} (`relay.smarthost`)", relay.smarthost),
    }
}
