//! The counters of the running server, read from its socket.

use std::path::Path;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use posthaste_metrics::FolderSize;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::command::serve::metrics::SOCKET;
use crate::failure::{Failure, Result};

/// Sums of one command, account, client or folder size.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Sums {
    pub cpu_ns: u64,
    pub commands: u64,
    pub received: u64,
    pub sent: u64,
    pub commits: u64,
    pub body_reads: u64,
    pub record_reads: u64,
    pub directory_reads: u64,
    pub conversions: u64,
    pub folder_messages: u64,
}

/// The cost of a command in folders of one size, over all accounts.
#[derive(Debug, Deserialize)]
pub struct OfCommand {
    pub protocol: String,
    pub command: String,
    pub folder: String,
    #[serde(flatten)]
    pub sums: Sums,
}

/// An account's use of one command, in its INBOX or elsewhere, in folders of one size.
#[derive(Debug, Clone, Deserialize)]
pub struct Use {
    pub protocol: String,
    pub command: String,
    pub folder: String,
    pub inbox: bool,
    pub cpu_ns: u64,
    pub commands: u64,
    pub folder_messages: u64,
}

impl Use {
    /// The messages of the folder, in the mean of the commands.
    pub fn messages(&self) -> f64 {
        self.folder_messages as f64 / self.commands.max(1) as f64
    }
}

#[derive(Debug, Deserialize)]
pub struct OfAccount {
    pub account: String,
    pub uses: Vec<Use>,
}

/// The commands of each account in its folders.
#[derive(Debug, Deserialize)]
pub struct Uses {
    /// Since the start of the server.
    pub seconds: u64,
    pub accounts: Vec<OfAccount>,
}

impl Uses {
    /// The uses of one account.
    pub fn of(&self, account: &str) -> &[Use] {
        self.accounts.iter().find(|of| of.account == account).map_or(&[], |of| &of.uses)
    }
}

/// The class of a label.
pub fn class_of(label: &str) -> Option<FolderSize> {
    FolderSize::ALL.into_iter().find(|class| class.to_string() == label)
}

/// The sums of commands, accounts, clients and roles of threads.
pub async fn cost(data: &Path) -> Result<Value> {
    parsed(&get(data, "/cost").await?)
}

/// See [`Uses`].
pub async fn uses(data: &Path) -> Result<Uses> {
    parsed(&get(data, "/accounts").await?)
}

/// A part of an answer as this type.
pub fn of_value<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| unknown(&error))
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| unknown(&error))
}

fn unknown(error: &serde_json::Error) -> Failure {
    Failure::Usage(format!(
        "the answer of the server cannot be parsed: {error}. Is the server of the same version as this command?"
    ))
}

/// A page on the socket of the running server.
async fn get(data: &Path, page: &str) -> Result<Bytes> {
    let path = data.join(SOCKET);
    let failed = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::Usage(format!(
            "no answer at {path}: {why}. Is the server running, on this machine, with this data directory (`--data`)?"
        ))
    };
    let stream = UnixStream::connect(&path).await.map_err(|error| failed(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(&error))?;
    let connection = tokio::spawn(connection);
    let request = Request::get(page).header("host", "localhost").body(Empty::<Bytes>::new());
    let request = request.map_err(|error| failed(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    if !answer.status().is_success() {
        return Err(failed(&answer.status()));
    }
    let text = answer.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
    connection.abort();
    Ok(text)
}
