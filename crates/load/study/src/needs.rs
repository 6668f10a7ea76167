//! The requirements of a study that can be checked before a server is started.

use posthaste_load_workload::{Mix, Protocol, Workload};

use crate::file::{Analysis, Study};
use crate::server::{Running, ServerChoice};

/// Refuses servers that lack what the study needs.
///
/// # Errors
/// What the first of them lacks, and the remedy.
pub fn refuse_lacking(study: &Study, servers: &[ServerChoice]) -> Result<(), String> {
    if study.analysis == Analysis::Regress {
        two_builds(study, servers)?;
    }
    for which in servers {
        let pop3 = study.workloads.iter().find(|workload| workload.protocol == Protocol::Pop3);
        if let (Some(workload), Some(why)) = (pop3, which.without_pop3()) {
            return Err(format!("the workload {} speaks POP3, and {why}", workload.name));
        }
        if let ServerChoice::Running(running) = which
            && running.imap.is_none()
        {
            without_imap(study, running)?;
        }
    }
    Ok(())
}

/// The verdict is on the second of two builds. A server that already runs may be one.
fn two_builds(study: &Study, servers: &[ServerChoice]) -> Result<(), String> {
    let is_build = |which: &ServerChoice| which.is_posthaste() || matches!(which, ServerChoice::Running(_));
    if servers.len() == 2 && servers.iter().all(is_build) {
        return Ok(());
    }
    Err(format!(
        "the study {} compares two builds of Posthaste: name them by --server 'old=/path/to/posthaste \
         new=/path/to/posthaste', or take posthaste-load regress OLD NEW. scripts/regress builds the last release and \
         this commit, and compares them",
        study.name
    ))
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
    match study.mixes.iter().find_map(with_folders) {
        Some(which) => Err(format!(
            "{which} has folders besides INBOX, and these are filled by IMAP: add imap://HOST:PORT to {name}"
        )),
        None => Ok(()),
    }
}

/// The first workload of a mix that has messages in folders besides INBOX, in words.
fn with_folders(mix: &Mix) -> Option<String> {
    let fills = |workload: &&Workload| workload.fill.folders > 0 && workload.fill.per_folder > 0;
    let workload = mix.kinds.iter().map(|kind| &kind.workload).find(fills)?;
    Some(match mix.kinds.len() {
        1 => format!("the workload {}", workload.name),
        _ => format!("the workload {} of the mix {}", workload.name, mix.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Length, load};

    fn refused(study: &Study, server: &str) -> Option<String> {
        refuse_lacking(study, &[server.parse().unwrap_or_else(|why| panic!("{why}"))]).err()
    }

    #[test]
    fn builds_are_compared_with_builds_alone() {
        let study = load("regress", Length::Quick).unwrap();
        let said = |servers: &[&str]| {
            let servers: Vec<ServerChoice> = servers.iter().map(|server| server.parse().unwrap()).collect();
            refuse_lacking(&study, &servers).err()
        };
        assert_eq!(said(&["old=/a/posthaste", "new=/b/posthaste"]), None);
        assert_eq!(said(&["posthaste", "new=/b/posthaste"]), None);
        assert_eq!(said(&["old=imap://a", "new=imap://b"]), None);
        for wrong in [&["posthaste"][..], &["posthaste", "cyrus"], &["posthaste", "a=/a/b", "b=/b/b"]] {
            let why = said(wrong).unwrap_or_default();
            assert!(why.contains("scripts/regress") && why.contains("--server 'old="), "{wrong:?}: {why}");
        }
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
        alone.mixes.retain(|mix| mix.kinds[0].workload.protocol == Protocol::Pop3);
        for server in ["x=pop3://h,lmtp://h", "x=pop3s://h,smtp://h,submission://h"] {
            assert_eq!(refused(&alone, server), None, "{server}");
        }
        for server in ["x=pop3://h", "x=pop3://h,submission://h"] {
            assert!(refused(&alone, server).unwrap().contains("add lmtp://HOST:PORT"), "{server}");
        }
        let fill = &mut alone.mixes[0].kinds[0].workload.fill;
        (fill.folders, fill.per_folder) = (2, 5);
        let said = refused(&alone, "x=pop3://h,lmtp://h").unwrap();
        assert!(said.starts_with("the workload pop3-check has folders"), "{said}");
        assert!(said.contains("filled by IMAP: add imap://HOST:PORT to x"), "{said}");
    }

    #[test]
    fn no_kind_of_a_mix_has_folders_on_a_server_of_pop3_alone() {
        let mut study = load("pop3", Length::Quick).unwrap();
        study.workloads.retain(|workload| workload.protocol == Protocol::Pop3);
        study.mixes.retain(|mix| mix.kinds[0].workload.protocol == Protocol::Pop3);
        let mix = &mut study.mixes[0];
        mix.name = "checks-and-folders".into();
        let mut second = mix.kinds[0].clone();
        second.workload.name = "with-folders".into();
        mix.kinds.push(second);
        assert_eq!(refused(&study, "x=pop3://h,lmtp://h"), None);
        let fill = &mut study.mixes[0].kinds[1].workload.fill;
        (fill.folders, fill.per_folder) = (2, 5);
        let said = refused(&study, "x=pop3://h,lmtp://h").unwrap();
        assert!(said.starts_with("the workload with-folders of the mix checks-and-folders has"), "{said}");
        assert_eq!(refused(&study, "x=imap://h,pop3://h"), None);
    }
}
