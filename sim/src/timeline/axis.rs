//! From instants to places. Lengths are true to the clock where they can be: what is too short for its two times to be
//! read is stretched, and a long time in which nothing happens is cut; both are marked.

use super::text;

/// Pixels of a millisecond where the axis is true.
const SCALE: f64 = 1.0;
/// A gap may be this wide. A whole early window fits.
const GAP_MAX: f64 = 170.0;
/// What a cut gap takes.
const CUT: f64 = 96.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    True,
    Stretched,
    Cut,
}

/// Between two instants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) length: Length,
}

#[derive(Debug)]
pub(crate) struct Axis {
    /// Every instant, and where it is.
    pub(crate) places: Vec<(u64, f64)>,
    pub(crate) gaps: Vec<Gap>,
}

impl Axis {
    /// Of instants in order; the first one is at `left`.
    pub(crate) fn new(instants: &[u64], left: f64) -> Self {
        let mut places: Vec<(u64, f64)> = Vec::new();
        let mut gaps = Vec::new();
        for &at in instants {
            let Some(&(before, x)) = places.last() else {
                places.push((at, left));
                continue;
            };
            let least =
                (text::width(&time(before), text::SMALL) + text::width(&time(at), text::SMALL)) / 2.0 + 8.0;
            #[expect(clippy::cast_precision_loss, reason = "a picture shows far less than 2^52 ms")]
            let exact = (at - before) as f64 * SCALE;
            let (wide, length) = if exact > GAP_MAX {
                (CUT.max(least), Length::Cut)
            } else if exact < least {
                (least, Length::Stretched)
            } else {
                (exact, Length::True)
            };
            gaps.push(Gap { from: before, to: at, length });
            places.push((at, x + wide));
        }
        Self { places, gaps }
    }

    /// Where an instant is; one that is not known stands with the last one before it.
    pub(crate) fn x(&self, at: u64) -> f64 {
        let after = self.places.partition_point(|(known, _)| *known <= at);
        after.checked_sub(1).and_then(|last| self.places.get(last)).map_or(0.0, |(_, x)| *x)
    }

    /// Where the last instant is.
    pub(crate) fn right(&self) -> f64 {
        self.places.last().map_or(0.0, |(_, x)| *x)
    }
}

/// Milliseconds for readers: `1 355`; from ten seconds on `30.5 s`, from ten minutes on `10 min`.
pub(crate) fn time(millis: u64) -> String {
    let (unit, per) = match millis {
        0..1_000 => return millis.to_string(),
        1_000..10_000 => return format!("{} {:03}", millis / 1_000, millis % 1_000),
        10_000..600_000 => ("s", 1_000),
        _ => ("min", 60_000),
    };
    let rest = millis % per;
    if rest == 0 {
        return format!("{} {unit}", millis / per);
    }
    if per == 60_000 {
        let (seconds, thousandths) = (rest / 1_000, rest % 1_000);
        let seconds = format!("{seconds}.{thousandths:03}");
        return format!("{} min {} s", millis / per, seconds.trim_end_matches('0').trim_end_matches('.'));
    }
    let fraction = format!("{rest:03}");
    format!("{}.{} {unit}", millis / per, fraction.trim_end_matches('0'))
}
