//! `posthaste-load report`.

use std::path::{Path, PathBuf};

use clap::Args;
use posthaste_load_report::{csv_of_all, files, html, markdown_of_all, short_html};

use crate::failure::Failure;

/// Flags of `report`.
#[derive(Args)]
pub struct ReportArgs {
    /// Results of runs or studies; several are compared in one report.
    #[arg(value_name = "DIR", required = true)]
    results: Vec<PathBuf>,
    /// The file to write. Every run's figures are written as CSV beside it, and the tables of
    /// studies as Markdown (`.tables.md`). The reports stored with the results stay unchanged.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Leave out the runs behind the points of a study, which are most of its report.
    #[arg(long)]
    short: bool,
    /// Overwrite it.
    #[arg(long)]
    force: bool,
}

/// Writes the report.
pub fn main(args: &ReportArgs) -> Result<(), Failure> {
    let results: Vec<_> =
        args.results.iter().map(|dir| files::read(dir)).collect::<Result<_, _>>().map_err(Failure::usage)?;
    let file = args.out.clone();
    let table = file.with_extension("csv");
    let document = file.with_extension("tables.md");
    let tables = markdown_of_all(&results);
    let written = [Some(&file), Some(&table), Some(&document).filter(|_| !tables.is_empty())];
    for file in written.into_iter().flatten() {
        files::prepare_file(file, args.force).map_err(Failure::failed)?;
    }
    let write = |file: &Path, text: String| files::replace(file, text.as_bytes()).map_err(Failure::failed);
    write(&table, csv_of_all(&results))?;
    if !tables.is_empty() {
        write(&document, tables)?;
    }
    write(&file, if args.short { short_html(&results) } else { html(&results) })?;
    println!("{} (and its figures in {})", file.display(), table.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use posthaste_load_results::Results;

    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_file_is_refused() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (result, new) = (dir.path().join("result"), elsewhere.path().join("new"));
        files::save(&result, &Results::Run(Box::default())).unwrap();
        let args = |force| ReportArgs {
            results: vec![result.clone()],
            out: dir.path().join("x.html"),
            short: false,
            force,
        };
        for name in ["x.html", "x.csv"] {
            let link = dir.path().join(name);
            std::os::unix::fs::symlink(&new, &link).unwrap();
            for force in [false, true] {
                let refused = main(&args(force));
                assert!(
                    matches!(refused, Err(Failure::Failed(what)) if what.contains("is a link")),
                    "{name}"
                );
            }
            assert!(!new.exists(), "{name}");
            std::fs::remove_file(&link).unwrap();
        }
    }
}
