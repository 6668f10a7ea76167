//! `posthaste-load`: a load generator and measuring instrument for IMAP, POP3, SMTP and LMTP
//! servers.
//!
//! It drives any server with workloads that are data (`posthaste_load_workload`), checks every
//! answer ([`run`]), measures the server's cost from outside ([`measure`]) and keeps what it found
//! in one documented schema ([`results`]). It shares nothing with the server of this project but
//! the words of `mail-model`.

pub mod accounts;
pub mod agent;
pub mod audit;
pub mod cli;
pub mod interrupt;
pub mod measure;
pub mod null_server;
pub mod output;
pub mod populate;
pub mod report;
pub mod results;
pub mod run;
pub mod stats;
pub mod study;
pub mod target;
