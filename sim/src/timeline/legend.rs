//! What stands below the lanes: the meanings of colours and marks, of those that the picture has.

use std::io;

use super::axis::{Axis, Length};
use super::chart::{Chart, Kind, Shape};
use super::draw::{LINE, MARGIN, shape, tear};
use super::svg::{Xml, n, path, rect, write};
use super::text;

/// One of them.
pub(crate) struct Item {
    x: f64,
    pub(crate) row: usize,
    sign: Sign,
    meaning: &'static str,
}

enum Sign {
    Bar(Kind),
    Mark(Shape),
    Axis(Length),
    Guide,
}

pub(crate) fn legend(chart: &Chart, axis: &Axis, wide: f64) -> Vec<Item> {
    let has = |kind: Kind| chart.lanes.iter().any(|lane| lane.bars.iter().any(|bar| bar.kind == kind));
    let marks =
        |shape: Shape| chart.lanes.iter().any(|lane| lane.points.iter().any(|point| point.shape == shape));
    let gaps = |length: Length| axis.gaps.iter().any(|gap| gap.length == length);
    let bars = Kind::ALL.into_iter().filter(|kind| has(*kind)).map(|kind| (Sign::Bar(kind), kind.meaning()));
    let shapes = Shape::ALL.into_iter().filter(|shape| marks(*shape));
    let shapes = shapes.map(|shape| (Sign::Mark(shape), shape.meaning()));
    let lengths = [(Length::Stretched, "dotted: stretched"), (Length::Cut, "torn: cut")];
    let lengths = lengths.into_iter().filter(|(length, _)| gaps(*length));
    let lengths = lengths.map(|(length, meaning)| (Sign::Axis(length), meaning));
    let (mut x, mut row) = (MARGIN, 0);
    let mut items = Vec::new();
    let guides = (!chart.guides.is_empty()).then_some((Sign::Guide, "the whole session"));
    for (sign, meaning) in bars.chain(shapes).chain(guides).chain(lengths) {
        let takes = 26.0 + text::width(meaning, text::SMALL) + 16.0;
        if x + takes > wide && x > MARGIN {
            (x, row) = (MARGIN, row + 1);
        }
        items.push(Item { x, row, sign, meaning });
        x += takes;
    }
    items
}

impl Item {
    pub(crate) fn draw(&self, xml: &mut Xml, top: f64) -> io::Result<()> {
        #[expect(clippy::cast_precision_loss, reason = "a few rows")]
        let y = top + self.row as f64 * LINE;
        match self.sign {
            Sign::Bar(kind) => rect(xml, kind.class(), self.x, y, 20.0, 11.0)?,
            Sign::Mark(mark) => shape(xml, mark, self.x + 10.0, y + 5.5)?,
            Sign::Guide => path(xml, "guide", &format!("M{} {}h20", n(self.x), n(y + 6.0)))?,
            Sign::Axis(length) => {
                path(xml, "axis stretched", &format!("M{} {}h20", n(self.x), n(y + 6.0)))?;
                if length == Length::Cut {
                    tear(xml, self.x + 10.0, y - 6.0)?;
                }
            }
        }
        write(xml, "small", self.x + 26.0, y + 10.0, self.meaning)
    }
}
