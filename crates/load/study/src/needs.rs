//! The requirements of a study that can be checked before a server is started.

use posthaste_load_workload::{Protocol, Workload};

use crate::file::Study;
use crate::server::{Running, Which};

/// Refuses servers that lack what the study needs.
///
/// # Errors
/// What the first of them lacks, and the remedy.
pub fn refuse_lacking(study: &Study, servers: &[Which]) -> Result<(), String> {
    for which in servers {
        let pop3 = study.workloads.iter().find(|workload| workload.protocol == Protocol::Pop3);
        if let (Some(workload), Some(why)) = (pop3, which.without_pop3()) {
            return Err(format!("the workload {} speaks POP3, and {why}", workload.name));
        }
        if let Which::Running(running) = which
            && running.imap.is_none()
        {
            without_imap(study, running)?;
        }
    }
    Ok(())
}

/// A server of POP3 alone serves workloads of POP3 alone, and mail that is delivered fills it.
fn without_imap(study: &Study, running: &Running) -> Result<(), String> {
    let name = &running.name;
    if let Some(workload) = study.workloads.iter().find(|workload| workload.protocol == Protocol::Imap) {
        return Err(format!(
            "the workload {} speaks IMAP, and {name} has no address of it: add imap://HOST:PORT",
            workload.name
        ));
    }
    if running.deliver.is_none() {
        return Err(format!(
            "POP3 takes no mail, so the accounts of {name} cannot be filled: add lmtp://HOST:PORT, smtp://HOST:PORT \
             or imap://HOST:PORT"
        ));
    }
    let folders = |workload: &&Workload| workload.fill.folders > 0 && workload.fill.per_folder > 0;
    match study.workloads.iter().find(folders) {
        Some(workload) => Err(format!(
            "the workload {} has folders besides INBOX, and these are filled by IMAP: add imap://HOST:PORT to {name}",
            workload.name
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    fn refused(study: &Study, server: &str) -> Option<String> {
        refuse_lacking(study, &[server.parse().unwrap_or_else(|why| panic!("{why}"))]).err()
    }

    #[test]
    fn a_server_of_pop3_alone_is_measured_by_pop3_alone() {
        let both = load("pop3", Length::Quick).unwrap();
        assert!(refused(&both, "x=imap://h").unwrap().contains("add pop3://HOST:PORT"));
        assert!(refused(&both, "x=pop3://h,lmtp://h").unwrap().contains("add imap://HOST:PORT"));
        assert_eq!(refused(&both, "x=imap://h,pop3://h"), None);
        assert_eq!(refused(&both, "posthaste"), None);
        let mut alone = both.clone();
        alone.workloads.retain(|workload| workload.protocol == Protocol::Pop3);
        for server in ["x=pop3://h,lmtp://h", "x=pop3s://h,smtp://h,submission://h"] {
            assert_eq!(refused(&alone, server), None, "{server}");
        }
        for server in ["x=pop3://h", "x=pop3://h,submission://h"] {
            assert!(refused(&alone, server).unwrap().contains("add lmtp://HOST:PORT"), "{server}");
        }
        alone.workloads[0].fill.folders = 2;
        alone.workloads[0].fill.per_folder = 5;
        assert!(refused(&alone, "x=pop3://h,lmtp://h").unwrap().contains("filled by IMAP"));
    }
}
