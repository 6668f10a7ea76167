//! The ways of mail at one point: how users send it, and how it arrives from outside.

use posthaste_load_drive::run::{ClusterOptions, Outside, SendBy};
use posthaste_load_drive::{Scheme, Target};
use posthaste_load_workload::{Protocol, Workload};

use crate::file::Study;
use crate::server::{Addresses, ELSEWHERE, Instance, ServerChoice};

/// The ways of mail in a workload on a server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ways {
    /// The way by which users send mail.
    pub(super) send: Option<SendBy>,
    /// The way by which mail from outside arrives.
    pub(super) deliver: Option<SendBy>,
    /// The way by which users send mail, in words.
    pub(super) sent_by: Option<String>,
    /// The way by which mail from outside arrives, in words.
    pub(super) arrives_by: Option<String>,
}

/// Users submit where the study asks for it and the server offers it, or where there is no other
/// way. Mail from outside is delivered, or appended where the server takes none.
pub(super) fn ways(study: &Study, at: &Addresses, workload: &Workload) -> Ways {
    let imap = if workload.tls { &at.imaps } else { &at.imap };
    let append = || imap.clone().map(SendBy::Append);
    let deliver = at.deliver.clone().map(SendBy::Mail).or_else(append);
    let wanted = study.submits(workload) || at.deliver.is_none();
    let submission = at.submitting(workload).filter(|_| wanted).cloned().map(SendBy::Mail);
    let send = submission.or_else(|| deliver.clone()).filter(|_| workload.submits());
    let deliver = deliver.filter(|_| workload.arrivals_per_user_per_s > 0.0);
    let sent_by = send.as_ref().map(|way| match word(way) {
        "submission" => "submission".to_owned(),
        word if study.submits(workload) => format!("{word}: offers no submission"),
        word => word.to_owned(),
    });
    Ways { sent_by, arrives_by: deliver.as_ref().map(|way| word(way).to_owned()), send, deliver }
}

fn word(way: &SendBy) -> &'static str {
    match way {
        SendBy::Append(_) => "APPEND",
        SendBy::Mail(target) => match target.scheme {
            Scheme::Smtp => "SMTP",
            Scheme::Lmtp => "LMTP",
            Scheme::Submission => "submission",
            Scheme::Imap | Scheme::Pop3 => "",
        },
    }
}

/// The share of the mail that is for the other server: of what users send, and in arms also of what
/// arrives. A server that already runs gets none, because it would not know where to send it.
pub(super) fn outside_share(study: &Study, which: &ServerChoice) -> f64 {
    match which {
        ServerChoice::Arm(_) => which.mail(&study.arms).outside,
        ServerChoice::Running(_) => 0.0,
        _ => study.outside,
    }
}

/// The mail for the other server.
pub(super) fn outside(
    study: &Study,
    which: &ServerChoice,
    at: &Addresses,
    workload: &Workload,
) -> Option<Outside> {
    let (share, domain) = (outside_share(study, which), ELSEWHERE.to_owned());
    match which {
        _ if share <= 0.0 || !at.sends_on => None,
        ServerChoice::Arm(_) => Some(Outside { domain, share, by: Some(at.routes.clone()?) }),
        // All mail that arrives is for accounts.
        _ => study.submits(workload).then_some(Outside { domain, share, by: None }),
    }
}

/// The other nodes: where mail is read, and where it is delivered.
pub(super) fn others(instance: &Instance, workload: &Workload) -> ClusterOptions {
    let nodes = &instance.nodes;
    ClusterOptions {
        others: nodes.iter().filter_map(|node| node.reading(workload).cloned()).collect(),
        senders: nodes.iter().filter_map(|node| node.deliver.clone()).collect(),
        ..ClusterOptions::default()
    }
}

/// The address at which users read mail.
///
/// # Errors
/// The server does not offer the protocol, or not in this form.
pub(super) fn reading(which: &ServerChoice, at: &Addresses, workload: &Workload) -> Result<Target, String> {
    let form = if workload.tls { " with TLS" } else { "" };
    let protocol = match workload.protocol {
        Protocol::Imap => "IMAP",
        Protocol::Pop3 => "POP3",
    };
    at.reading(workload).cloned().ok_or_else(|| {
        let package = which.pop3_package().filter(|_| workload.protocol == Protocol::Pop3);
        let remedy = package.map_or_else(String::new, |p| format!("; Debian: apt-get install {p}"));
        format!("{}: {protocol}{form} is not offered{remedy}", which.name())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    fn addresses() -> Addresses {
        let target = |url: &str| Some(url.parse::<Target>().unwrap());
        Addresses {
            imap: target("imap://h"),
            imaps: target("imaps://h"),
            pop3s: target("pop3s://h"),
            deliver: target("lmtp://h"),
            submission: target("submission+plain://h"),
            submissions: target("submissions://h"),
            ..Addresses::default()
        }
    }

    fn scheme(way: &Option<SendBy>) -> Option<(Scheme, u16)> {
        way.as_ref().map(|way| (way.target().scheme, way.target().endpoint.port))
    }

    #[test]
    fn users_submit_and_mail_from_outside_is_delivered() {
        let memory = load("memory", Length::Quick).unwrap();
        let workload = &memory.workloads[0];
        let found = ways(&memory, &addresses(), workload);
        assert_eq!(scheme(&found.send), Some((Scheme::Submission, 587)));
        assert_eq!(scheme(&found.deliver), Some((Scheme::Lmtp, 24)));
        assert_eq!(found.sent_by.as_deref(), Some("submission"));
        let tls = Workload { tls: true, ..workload.clone() };
        assert_eq!(scheme(&ways(&memory, &addresses(), &tls).send), Some((Scheme::Submission, 465)));
        let without = Addresses { submission: None, ..addresses() };
        let found = ways(&memory, &without, workload);
        assert_eq!(found.sent_by.as_deref(), Some("LMTP: offers no submission"));
        assert_eq!(
            (scheme(&found.send), found.arrives_by.as_deref()),
            (Some((Scheme::Lmtp, 24)), Some("LMTP"))
        );
        // A server that takes no mail gets it by APPEND, also mail from outside.
        let none = Addresses { deliver: None, ..without };
        let found = ways(&memory, &none, workload);
        assert_eq!(found.sent_by.as_deref(), Some("APPEND: offers no submission"));
        assert_eq!(scheme(&found.deliver), Some((Scheme::Imap, 143)));
    }

    #[test]
    fn in_other_studies_mail_goes_one_way() {
        let koka = load("koka", Length::Quick).unwrap();
        let found = ways(&koka, &addresses(), &koka.workloads[0]);
        assert_eq!((scheme(&found.send), found.deliver), (Some((Scheme::Lmtp, 24)), None));
        assert_eq!(found.sent_by.as_deref(), Some("LMTP"));
        // Where submission is the only way in, it is taken.
        let only = Addresses { deliver: None, ..addresses() };
        let found = ways(&koka, &only, &koka.workloads[0]);
        assert_eq!(scheme(&found.send), Some((Scheme::Submission, 465)));
        let sync = load("item-count", Length::Quick).unwrap();
        assert_eq!(ways(&sync, &addresses(), &sync.workloads[0]), Ways::default());
    }

    #[test]
    fn a_part_of_what_users_send_is_for_the_other_server() {
        let pop3 = load("pop3", Length::Quick).unwrap();
        let routes = Addresses { sends_on: true, ..addresses() };
        let of = |which: &ServerChoice, at: &Addresses, workload: usize| {
            outside(&pop3, which, at, &pop3.workloads[workload])
        };
        let found = of(&ServerChoice::Posthaste, &routes, 0).unwrap();
        assert_eq!((found.share, found.by), (pop3.outside, None));
        assert!(pop3.outside > 0.0);
        // The rows of the IMAP mixes are as in their own study.
        assert_eq!(of(&ServerChoice::Posthaste, &routes, 1), None);
        let mix = ways(&pop3, &routes, &pop3.workloads[1]);
        assert_eq!(mix.sent_by.as_deref(), Some("LMTP"));
        // A server that does not send on, and one that does not know where to.
        assert_eq!(of(&ServerChoice::Cyrus, &addresses(), 0), None);
        let running: ServerChoice = "x=imap://h,pop3://h,submission://h".parse().unwrap();
        assert_eq!((of(&running, &routes, 0), outside_share(&pop3, &running)), (None, 0.0));
    }

    #[test]
    fn pop3_is_read_with_tls_where_the_workload_asks_for_it() {
        let pop3 = load("pop3", Length::Quick).unwrap();
        let workload = &pop3.workloads[0];
        let pop3s = Addresses { imap: None, imaps: None, ..addresses() };
        let target = reading(&ServerChoice::Courier, &pop3s, workload).unwrap();
        assert_eq!(target.endpoint.port, 995);
        let plain = Workload { tls: false, ..workload.clone() };
        let said = reading(&ServerChoice::Courier, &pop3s, &plain).unwrap_err();
        assert_eq!(said, "Courier: POP3 is not offered; Debian: apt-get install courier-pop");
        let said = reading(&ServerChoice::Courier, &pop3s, &pop3.workloads[1]).unwrap_err();
        assert_eq!(said, "Courier: IMAP with TLS is not offered");
    }
}
