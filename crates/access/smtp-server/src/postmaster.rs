//! Who gets mail for a postmaster whose address nobody has. RFC 5321 §4.5.1: a server that takes
//! mail takes it for `postmaster`, without a domain and at each of its domains. RFC 2142 §5 names
//! the address, too.

use posthaste_directory::{Address, Directory, ResolveError, Target, normal_domain};

/// The names of this server that decide who its postmaster is.
#[derive(Clone, Copy, Debug)]
pub struct PostmasterNames<'o> {
    /// Our own name. Reports come from `postmaster` at this name.
    pub host: &'o str,
    /// The domain of the first account, which may be another than our name's.
    pub domain: Option<&'o str>,
    /// The address that is configured for mail to a postmaster whose address nobody has.
    pub configured: Option<&'o str>,
    /// Whether another server has the recipients at our own name that this one does not know.
    pub is_shared: bool,
}

/// Why somebody gets the mail of a postmaster whose address nobody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// This is another address of the same postmaster.
    Address(String),
    /// This is the configured address.
    Configured(String),
    /// The account was chosen by its rights and its age. The configured address, if there is one,
    /// takes no mail.
    Chosen(Option<String>),
}

/// Where to look in place of a postmaster's address that nobody has. The first that takes mail
/// gets it.
#[derive(Debug, PartialEq, Eq)]
struct Substitutes {
    /// Addresses of the same postmaster.
    addresses: Vec<String>,
    /// The configured address.
    configured: Option<String>,
    /// Domains in normal form, for [`Directory::postmaster`].
    domains: Vec<String>,
}

impl PostmasterNames<'_> {
    /// Who gets mail for a recipient that was not found for this reason. If it is a postmaster of
    /// ours, somebody gets it instead, and why (RFC 5321 §4.5.1). Else the reason stays.
    pub async fn find(
        &self,
        directory: &Directory,
        recipient: &str,
        missing: ResolveError,
    ) -> (Result<Target, ResolveError>, Option<Instead>) {
        let Some(substitutes) = self.substitutes(recipient, &missing) else { return (Err(missing), None) };
        let Substitutes { addresses, configured, domains } = substitutes;
        for address in addresses {
            let found = taken_by(directory, &address).await;
            if let Some(found) = found {
                return (found, Some(Instead::Address(address)));
            }
        }
        if let Some(address) = &configured {
            let found = taken_by(directory, address).await;
            if let Some(found) = found {
                return (found, configured.map(Instead::Configured));
            }
        }
        match directory.postmaster(&domains).await {
            Ok(Some(recipient)) => (Ok(Target::Account(recipient)), Some(Instead::Chosen(configured))),
            Ok(None) => (Err(missing), None),
            Err(error) => (Err(error.into()), None),
        }
    }

    /// Where to look for a recipient that was not found for this reason. `None` if it is no
    /// postmaster of ours. Its spelling does not count, nor that of the domain.
    ///
    /// The postmaster without a domain is that of our own name. It may also be that of a domain
    /// above it, of our first domain, or of the first start. If another domain of ours has no
    /// accounts, those of our own domains come before accounts of strangers to it.
    fn substitutes(&self, recipient: &str, missing: &ResolveError) -> Option<Substitutes> {
        if !takes_no_mail(missing) {
            return None;
        }
        let recipient = Address::parse(recipient).ok().filter(|address| address.local() == "postmaster")?;
        let other = recipient.domain().filter(|domain| !domain.eq_ignore_ascii_case(self.host));
        // Another server has the domain, or what is unknown at our own name.
        let is_elsewhere = other.is_some() || (self.is_shared && recipient.domain().is_some());
        if is_elsewhere && matches!(missing, ResolveError::NotLocal) {
            return None;
        }
        let addresses = match other {
            Some(_) => Vec::new(),
            None => self.own_domains().map(|domain| format!("postmaster@{domain}")).collect(),
        };
        let own = self.own_domains().filter_map(|domain| normal_domain(domain).ok());
        let domains = other.map(str::to_owned).into_iter().chain(own).collect();
        Some(Substitutes { addresses, configured: self.configured.map(str::to_owned), domains })
    }

    /// The domains of the server itself, in the order in which its postmaster is looked for.
    fn own_domains(&self) -> impl Iterator<Item = &str> {
        let above = self.host.split_once('.').map(|(_, domain)| domain);
        [Some(self.host), above, self.domain, Some("localhost")].into_iter().flatten()
    }
}

/// What is found at an address; `None` if nobody takes its mail.
async fn taken_by(directory: &Directory, address: &str) -> Option<Result<Target, ResolveError>> {
    match directory.target(address).await {
        Err(error) if takes_no_mail(&error) => None,
        found => Some(found),
    }
}

/// Whether an address was looked up, and nobody takes its mail. A postmaster that is disabled is
/// nobody, too: RFC 5321 §4.5.1 has no exception.
pub(crate) const fn takes_no_mail(error: &ResolveError) -> bool {
    match error {
        ResolveError::Invalid(_)
        | ResolveError::NotLocal
        | ResolveError::NoSuchUser
        | ResolveError::Disabled => true,
        ResolveError::Directory(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use posthaste_directory::DirectoryError;

    use super::*;

    const NAMES: PostmasterNames<'_> = PostmasterNames {
        host: "Mail.Example.org",
        domain: Some("first.test"),
        configured: Some("ana"),
        is_shared: false,
    };

    #[test]
    fn the_postmaster_of_our_own_name_has_many_addresses() {
        let own = ["Mail.Example.org", "Example.org", "first.test", "localhost"];
        for recipient in ["postmaster", "POSTMASTER", "Postmaster@mail.example.ORG", "\"postmaster\""] {
            for missing in [ResolveError::NoSuchUser, ResolveError::NotLocal, ResolveError::Disabled] {
                let found = NAMES.substitutes(recipient, &missing).unwrap();
                assert_eq!(found.addresses, own.map(|domain| format!("postmaster@{domain}")), "{recipient}");
                assert_eq!(found.domains, own.map(str::to_lowercase));
                assert_eq!(found.configured.as_deref(), Some("ana"));
            }
        }
    }

    #[test]
    fn the_postmaster_of_another_domain_of_ours_is_of_that_domain() {
        for missing in [ResolveError::NoSuchUser, ResolveError::Disabled] {
            let found = NAMES.substitutes("postMaster@B\u{fc}cher.example", &missing).unwrap();
            assert_eq!((found.addresses.len(), found.configured.as_deref()), (0, Some("ana")));
            // Without accounts it is the server's own, and not that of any other domain here.
            let domains =
                ["xn--bcher-kva.example", "mail.example.org", "example.org", "first.test", "localhost"];
            assert_eq!(found.domains, domains);
        }
        // Mail for another server's is not for ours.
        assert_eq!(NAMES.substitutes("postmaster@b.test", &ResolveError::NotLocal), None);
    }

    /// A name that is a domain shared with another server, which has the unknown recipients.
    #[test]
    fn the_postmaster_at_a_shared_name_may_be_the_other_servers() {
        let shared = PostmasterNames { is_shared: true, ..NAMES };
        let ours = "Postmaster@mail.example.org";
        assert_eq!(shared.substitutes(ours, &ResolveError::NotLocal), None);
        assert!(shared.substitutes(ours, &ResolveError::Disabled).is_some());
        assert!(shared.substitutes("postmaster", &ResolveError::NoSuchUser).is_some());
    }

    #[test]
    fn nobody_else_has_substitutes() {
        for recipient in ["ana", "ana@mail.example.org", "postmaster+x@first.test", "postmasters", "a b"] {
            assert_eq!(NAMES.substitutes(recipient, &ResolveError::NoSuchUser), None, "{recipient}");
        }
        // It may have the address.
        let unread = ResolveError::Directory(DirectoryError::NoAccount(String::new()));
        assert_eq!(NAMES.substitutes("postmaster", &unread), None);
    }
}
