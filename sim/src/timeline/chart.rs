//! What a picture shows, before anybody has thought of where: lanes, and what lies in them.

/// A whole picture.
#[derive(Debug, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// From top to bottom.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) links: Vec<Link>,
    /// Instants at which something concerns every lane, and the lane that it comes from.
    pub(crate) guides: Vec<(u64, usize)>,
}

/// One row: a call, a question, an attempt, a descendant, or what is done to the whole session.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Who refers to it; lanes are sorted after they were made.
    pub(crate) id: usize,
    /// Lanes of one process stand together, …
    pub(crate) group: usize,
    /// … the one that begins first on top, and of those that begin together the cause above its effect.
    pub(crate) begins: (u64, Rank),
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) bars: Vec<Bar>,
    pub(crate) points: Vec<Point>,
    pub(crate) labels: Vec<Label>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Call,
    Question,
    Attempt,
    Descendant,
}

/// A stretch of time; without an end it goes on when the picture stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bar {
    pub(crate) kind: Kind,
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

/// In the order in which they are drawn over each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Window,
    Waiting,
    Paused,
    Question,
    Starting,
    Running,
    Grace,
    Ended,
    Descendant,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Window,
        Self::Waiting,
        Self::Paused,
        Self::Question,
        Self::Starting,
        Self::Running,
        Self::Grace,
        Self::Ended,
        Self::Descendant,
    ];

    /// The name of its style.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Question => "question",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Grace => "grace",
            Self::Ended => "ended",
            Self::Descendant => "descendant",
        }
    }

    /// What the legend says.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Window => "early-exit window",
            Self::Waiting => "a caller waits",
            Self::Paused => "its yield deadline stands still",
            Self::Question => "a question is open",
            Self::Starting => "the spawner works",
            Self::Running => "the program runs",
            Self::Grace => "grace between TERM and KILL",
            Self::Ended => "ended, and not all of it is told",
            Self::Descendant => "a descendant lives",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) at: u64,
    pub(crate) shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    Output,
    Input,
    Signal,
    /// A wait ends because its time is over.
    Deadline,
    /// An end: of a program, or of a client.
    End,
}

impl Shape {
    pub(crate) const ALL: [Self; 5] = [Self::Output, Self::Input, Self::Signal, Self::Deadline, Self::End];

    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Input => "input",
            Self::Signal => "a signal",
            Self::Deadline => "a yield deadline",
            Self::End => "end",
        }
    }
}

/// Words about an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) at: u64,
    pub(crate) text: String,
}

/// Something in one lane causes something in another at once; lanes by their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) at: u64,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Lane {
    pub(crate) fn bar(&mut self, kind: Kind, from: u64, to: Option<u64>) {
        self.bars.push(Bar { kind, from, to });
    }

    pub(crate) fn point(&mut self, at: u64, shape: Shape) {
        let point = Point { at, shape };
        if !self.points.contains(&point) {
            self.points.push(point);
        }
    }

    pub(crate) fn label(&mut self, at: u64, text: impl Into<String>) {
        self.labels.push(Label { at, text: text.into() });
    }
}

impl Chart {
    /// Adds a lane, and answers its id.
    pub(crate) fn lane(
        &mut self,
        group: usize,
        begins: (u64, Rank),
        name: String,
        detail: String,
    ) -> &mut Lane {
        let id = self.lanes.len();
        let (bars, points, labels) = (Vec::new(), Vec::new(), Vec::new());
        self.lanes.push(Lane { id, group, begins, name, detail, bars, points, labels });
        &mut self.lanes[id]
    }

    /// Puts the lanes into their order; nothing is added afterwards.
    pub(crate) fn sort(&mut self) {
        self.lanes.sort_by_key(|lane| (lane.group, lane.begins, lane.id));
    }

    /// Where a lane stands from the top.
    pub(crate) fn row(&self, id: usize) -> usize {
        self.lanes.iter().position(|lane| lane.id == id).unwrap_or_default()
    }

    /// Every instant that something in it has, in order, once each.
    pub(crate) fn instants(&self) -> Vec<u64> {
        let in_lanes = self.lanes.iter().flat_map(|lane| {
            let bars = lane.bars.iter().flat_map(|bar| [Some(bar.from), bar.to]).flatten();
            let points = lane.points.iter().map(|point| point.at);
            bars.chain(points).chain(lane.labels.iter().map(|label| label.at))
        });
        let mut instants: Vec<u64> =
            in_lanes.chain(self.guides.iter().map(|(at, _)| *at)).chain([0]).collect();
        instants.sort_unstable();
        instants.dedup();
        instants
    }
}
