//! What `sim run` found, as JUnit XML for those who show such reports. Times in it are virtual, so that it is the same
//! to the byte in every run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::{Failure, stem};

pub(crate) struct Junit(TestSuite);

impl Junit {
    /// `suite` names what the scenarios were played on.
    pub(crate) fn new(suite: &str) -> Self {
        Self(TestSuite::new(suite))
    }

    /// A scenario that was played; `details` is what was not as expected, empty if all was.
    pub(crate) fn played(&mut self, file: &Path, title: &str, took: u64, details: &str) {
        let status = if details.is_empty() {
            TestCaseStatus::success()
        } else {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            let first = details.lines().next().unwrap_or_default();
            status.set_message(first.trim_start_matches([' ', '!'])).set_description(details);
            status
        };
        let mut case = Self::case(file, status);
        case.set_time(Duration::from_millis(took)).add_property(("title", title));
        self.0.add_test_case(case);
    }

    /// A file that cannot be used.
    pub(crate) fn unusable(&mut self, file: &Path, problem: &str) {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(problem);
        self.0.add_test_case(Self::case(file, status));
    }

    fn case(file: &Path, status: TestCaseStatus) -> TestCase {
        let mut case = TestCase::new(stem(file), status);
        let folder = file.parent().map(|folder| folder.display().to_string());
        case.set_classname(folder.filter(|folder| !folder.is_empty()).unwrap_or_else(|| ".".into()));
        case
    }

    /// Writes the report.
    pub(crate) fn write(self, path: &Path) -> Result<(), Failure> {
        let mut report = Report::new("sim");
        report.add_test_suite(self.0);
        let xml = report.to_string().map_err(|error| Failure::Usage(error.to_string()))?;
        fs::write(path, xml).map_err(|source| Failure::File { path: path.to_owned(), source })
    }
}
