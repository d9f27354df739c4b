//! `sim gallery FOLDER SCENARIOS.. [--check]`

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use sim::{Scenario, timeline};

use super::{Failure, scenario_files};

/// Scenarios with this tag have a picture.
const TAG: &str = "gallery";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the pictures are
    folder: PathBuf,
    /// Scenario files, and folders of them; those tagged `gallery` are drawn
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Draw nothing; fail if a picture is not as it would be drawn
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(out: &mut impl Write, args: &Args) -> Result<bool, Failure> {
    let mut fresh: BTreeMap<PathBuf, String> = BTreeMap::new();
    for file in scenario_files(&args.scenarios)? {
        let scenario = Scenario::load(&file).map_err(|error| Failure::Usage(error.to_string()))?;
        if scenario.tags.iter().any(|tag| tag == TAG) {
            let name = Path::new(file.file_stem().unwrap_or_default()).with_extension("svg");
            fresh.insert(args.folder.join(name), timeline(&scenario)?);
        }
    }
    if fresh.is_empty() {
        return Err(Failure::Usage(format!("no scenario is tagged {TAG:?}")));
    }
    let left: Vec<PathBuf> = pictures(&args.folder)?;
    let left = left.into_iter().filter(|path| !fresh.contains_key(path));
    if args.check { check(out, &fresh, left) } else { draw(out, &fresh, left) }
}

/// The pictures in a folder, by name; one that is not there has none.
fn pictures(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |source| Failure::File { path: folder.to_owned(), source };
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(unreadable)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "svg"));
    paths.sort();
    Ok(paths)
}

fn check(
    out: &mut impl Write,
    fresh: &BTreeMap<PathBuf, String>,
    left: impl Iterator<Item = PathBuf>,
) -> Result<bool, Failure> {
    let mut wrong = 0;
    for (path, svg) in fresh {
        let problem = match std::fs::read_to_string(path) {
            Ok(there) if there == *svg => continue,
            Ok(_) => "is stale".to_owned(),
            Err(error) => error.to_string(),
        };
        wrong += 1;
        writeln!(out, "{}: {problem}", path.display())?;
    }
    for path in left {
        wrong += 1;
        writeln!(out, "{}: no scenario with this name is tagged {TAG:?}", path.display())?;
    }
    if wrong > 0 {
        writeln!(out, "not as it would be drawn: {wrong}; to draw anew, leave out --check")?;
    }
    Ok(wrong == 0)
}

fn draw(
    out: &mut impl Write,
    fresh: &BTreeMap<PathBuf, String>,
    left: impl Iterator<Item = PathBuf>,
) -> Result<bool, Failure> {
    let failed = |path: &Path, source| Failure::File { path: path.to_owned(), source };
    for (path, svg) in fresh {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
        }
        std::fs::write(path, svg).map_err(|source| failed(path, source))?;
        writeln!(out, "{}", path.display())?;
    }
    for path in left {
        std::fs::remove_file(&path).map_err(|source| failed(&path, source))?;
        writeln!(out, "{} is gone: no scenario with this name is tagged {TAG:?}", path.display())?;
    }
    Ok(true)
}
