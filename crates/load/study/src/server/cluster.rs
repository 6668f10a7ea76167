//! Posthaste on Apache Cassandra: nodes that serve the same accounts, each a process with a data
//! directory of its own. All mail is in a keyspace that the study makes.

use std::fs;
use std::path::Path;

use posthaste_load_results::ServerFacts;

use super::cassandra::new_keyspace;
use super::folder::make_own;
use super::instance::{Addresses, Instance, Nodes, Part, Setting, parts};
use super::posthaste::{addresses, make_accounts, program, ready_line, version};
use super::process::{Child, output};
use super::watched::Watched;
use crate::settings::{ACCESS, STORE};

/// The protocols of each node.
const LISTENED: [&str; 5] = ["imap", "imaps", "pop3", "pop3s", "lmtp"];

/// Starts the nodes, and makes keyspace and accounts where they are missing.
pub fn start(setting: &Setting, nodes: &Nodes) -> Result<Instance, String> {
    let place = nodes.cassandra.place()?;
    let program = program(setting.posthaste.as_deref())?;
    let folder = setting.folder;
    make_own(folder)?;
    let config = folder.join("posthaste.toml");
    let settings = |keyspace: &str| format!("engine = \"{}\"\n", place.engine(keyspace));
    fs::write(&config, settings(&keyspace(folder)?)).map_err(|e| format!("{}: {e}", config.display()))?;
    let [binary, config] = [&program, &config].map(|path| path.display().to_string());
    let replicas = place.replicas().to_string();
    output(&[&binary, "engine", "init", "--replicas", &replicas, "--config", &config])?;
    let admin = folder.join("admin").display().to_string();
    make_accounts(&program, &["--config", &config, "--data", &admin], setting)?;
    let words = |number| serve(folder, [&binary, &config], number);
    let started = (1..=nodes.count.max(1)).map(|number| node(folder, &words(number), number));
    let (mut nodes_at, mut all): (Vec<Addresses>, Vec<Part>) =
        started.collect::<Result<Vec<_>, String>>()?.into_iter().unzip();
    all.extend(parts(STORE, &nodes.cassandra.watched));
    Ok(Instance {
        at: nodes_at.remove(0),
        import: None,
        relay: None,
        nodes: nodes_at,
        parts: all,
        pid: None,
        agent: None,
        cgroup: None,
        figures: None,
        facts: ServerFacts {
            name: "Posthaste".into(),
            version: version(&program)?,
            // Without the keyspace, whose name is of this start.
            settings: format!("{}\n\n# posthaste.toml\n{}", words(1).join(" "), settings("KEYSPACE")),
            ..ServerFacts::default()
        },
        _child: None,
    })
}

/// The refusal of a server that has no nodes.
pub fn no_nodes(name: &str) -> String {
    format!(
        "{name} has no nodes to sweep: name posthaste, NAME=/path/to/posthaste, or a running server with several nodes \
         (NAME=imap://NODE:PORT,imap://NODE:PORT)"
    )
}

/// The keyspace of a server's folder. The first start in the folder gives it a name.
fn keyspace(folder: &Path) -> Result<String, String> {
    let file = folder.join("keyspace");
    if let Ok(known) = fs::read_to_string(&file) {
        return Ok(known.trim().to_owned());
    }
    let new = new_keyspace();
    fs::write(&file, &new).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(new)
}

/// The command of a node.
fn serve(folder: &Path, [binary, config]: [&str; 2], number: u32) -> Vec<String> {
    let data = folder.join(format!("node-{number}")).display().to_string();
    let mut words = [binary, "serve", "--config", config, "--data", &data].map(str::to_owned).to_vec();
    for protocol in LISTENED {
        words.extend(["--listen".to_owned(), format!("{protocol}=127.0.0.1:0")]);
    }
    words
}

/// Starts a node, and waits until it accepts connections.
fn node(folder: &Path, words: &[String], number: u32) -> Result<(Addresses, Part), String> {
    let log = folder.join(format!("node-{number}.log"));
    let mut child = Child::spawn(words, &log, None)?;
    let ready = ready_line(&mut child)
        .ok_or_else(|| format!("node {number} of posthaste did not start: see {}", log.display()))?;
    let node = addresses(&ready, &LISTENED)?;
    let watched = Watched { pid: Some(child.pid()), agent: None, cgroup: child.cgroup() };
    Ok((node, Part { name: format!("{ACCESS} {number}"), watched, _child: Some(child) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_its_keyspace() {
        let folder = tempfile::tempdir().unwrap();
        let first = keyspace(folder.path()).unwrap();
        assert!(first.starts_with("posthaste_study_"));
        assert_eq!(keyspace(folder.path()), Ok(first));
    }
}
