//! `figure tiling`: a layout cut into tiles, one colour per tile.
//!
//! The subject is a layout. Keys:
//! - `tiler`: what cuts it; needed;
//! - `tile`: the one to show before the others, counted down and right, such as `(1,2)`;
//! - `label` and `titles`, as in `figure layout`.

use colex_draw::{LabelBy, Picture, Tiling};

use colex_layout::{Layout, Tiler};

use super::options::{label, needed, pair, parsed, titles};
use super::{Body, Error};

pub(super) fn draw(body: &Body) -> Result<Picture, Error> {
    let [text] = body.subjects()? else {
        return Err(Error::new(
            "a tiling has one subject: the layout that is cut",
        ));
    };
    let tiler: Tiler = parsed(needed(body, "tiler")?, "a tiler")?;
    let tiling = Tiling::of(parsed::<Layout>(text, "a layout")?, tiler)?;
    let label = label(body, LabelBy::Offset)?;
    let picture = match body.value("tile") {
        None => tiling.picture(label),
        Some(tile) => tiling.picture_of(existing(&tiling, tile)?, label),
    };
    let Some(title) = titles(body, 1)?.pop() else {
        return Ok(picture);
    };
    let grids = picture.grids().map(|grid| grid.clone().caption(title));
    Ok(Picture::beside(grids).title(format!("{title}, one colour per tile")))
}

fn existing(tiling: &Tiling, text: &str) -> Result<(i64, i64), Error> {
    let tile = pair(text)?;
    if tiling.has(tile) {
        return Ok(tile);
    }
    Err(Error::new(format!("there is no tile {text}")))
}

#[cfg(test)]
mod tests {
    use crate::figure::{draw, refused};

    #[test]
    fn a_tile_is_shown_before_the_others() {
        let body = "(8,8):(8,1)\ntiler = (4,2)\ntile = (1,2)";
        let html = draw("tiling", body).expect("the body is well formed");
        assert_eq!(html.matches("font-weight=\"bold\"").count(), 8);
        assert!(html.contains("(8,8):(8,1) / (4,2)"));
        let html = draw("tiling", "(8,8):(8,1)\ntiler = (4,2)\ntitles = eight tiles");
        let html = html.expect("the body is well formed");
        assert!(html.contains(">eight tiles</text>") && !html.contains("/ (4,2)"));
    }

    #[test]
    fn mistakes_are_sentences() {
        let error = |body: &str| refused("tiling", body);
        assert_eq!(error("8:1"), "the figure needs `tiler = ..`");
        assert_eq!(
            error("8:1\n4:1\ntiler = 2"),
            "a tiling has one subject: the layout that is cut"
        );
        assert_eq!(
            error("(8,8):(8,1)\ntiler = (4,2)\ntile = (2,0)"),
            "there is no tile (2,0)"
        );
    }
}
