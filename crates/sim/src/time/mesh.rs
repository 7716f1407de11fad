//! The network between the tiles of a chip.

use pagewalk_vm::random::mix;

use crate::spec::settings::MeshSpec;

/// A mesh of tiles; each has a core and a slice of the last cache level, some a memory controller. Tiles are numbered
/// row by row.
///
/// A message goes along its row, then along its column (XY routing). Its first flit takes a hop's time for every hop,
/// the others follow.
///
/// ```text
/// latency = hops * hop + (ceil(bytes / flit) - 1) * flit time        nothing within a tile
/// ```
///
/// DEVIATION from any real mesh: messages do not wait for each other.
#[derive(Clone, Debug)]
pub struct Mesh {
    columns: u32,
    rows: u32,
    hop_ps: u64,
    flit_bytes: u32,
    flit_ps: u64,
    controllers: Vec<u32>,
}

impl Mesh {
    /// Returns the mesh of a machine.
    ///
    /// # Panics
    ///
    /// If it has no tile, flits have no bytes, or a controller is outside.
    pub fn new(spec: &MeshSpec) -> Self {
        let MeshSpec { columns, rows, hop_ps, flit_bytes, flit_ps, ref controllers } = *spec;
        assert!(columns > 0 && rows > 0 && flit_bytes > 0, "a mesh needs tiles and links: {spec:?}");
        let controllers = match controllers.is_empty() {
            true => corners(columns, rows),
            false => controllers.clone(),
        };
        assert!(
            controllers.iter().all(|&tile| tile < columns * rows),
            "controllers outside the mesh: {spec:?}"
        );
        Self { columns, rows, hop_ps, flit_bytes, flit_ps, controllers }
    }

    /// Returns the number of tiles.
    pub fn tiles(&self) -> u32 {
        self.columns * self.rows
    }

    /// Returns the number of links from one tile to another.
    #[inline]
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        let place = |tile: u32| (tile % self.columns, tile / self.columns);
        let ((from_column, from_row), (to_column, to_row)) = (place(from), place(to));
        from_column.abs_diff(to_column) + from_row.abs_diff(to_row)
    }

    /// Returns the time until the last of so many bytes is there.
    #[inline]
    pub fn latency_ps(&self, from: u32, to: u32, bytes: u32) -> u64 {
        match self.hops(from, to) {
            0 => 0,
            hops => {
                let following = bytes.div_ceil(self.flit_bytes).saturating_sub(1);
                u64::from(hops) * self.hop_ps + u64::from(following) * self.flit_ps
            }
        }
    }

    /// Returns the tile whose slice of the last level has a line: a hash of its address (in lines, not bytes).
    #[inline]
    pub fn slice(&self, line: u64) -> u32 {
        // Mixing first, so that no stride of a program meets one slice only.
        ((u128::from(mix(line)) * u128::from(self.tiles())) >> 64) as u32
    }

    /// Returns the tiles of the memory controllers, controller 0 first.
    pub fn controllers(&self) -> &[u32] {
        &self.controllers
    }
}

/// Returns the tiles at the corners, each once: a mesh of one row or column has fewer than four.
fn corners(columns: u32, rows: u32) -> Vec<u32> {
    let last_row = (rows - 1) * columns;
    let mut corners = vec![0, columns - 1, last_row, last_row + columns - 1];
    corners.sort_unstable();
    corners.dedup();
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gupta et al., "AstriFlash: A Flash-Based System for Online Services", HPCA 2023, Table I: 4 x 4, links of 16
    /// bytes, 3 cycles a hop, 2 GHz.
    fn published() -> MeshSpec {
        MeshSpec { columns: 4, rows: 4, hop_ps: 1_500, flit_bytes: 16, flit_ps: 500, controllers: Vec::new() }
    }

    #[test]
    fn a_message_takes_its_hops_and_its_flits() {
        let mesh = Mesh::new(&published());
        assert_eq!(
            [(0, 0), (0, 3), (0, 15), (5, 10), (12, 3)].map(|(a, b)| mesh.hops(a, b)),
            [0, 3, 6, 2, 6]
        );
        assert_eq!(mesh.latency_ps(5, 5, 64), 0, "within a tile");
        assert_eq!(mesh.latency_ps(0, 1, 8), 1_500, "one flit");
        assert_eq!(mesh.latency_ps(0, 1, 16), 1_500);
        assert_eq!(mesh.latency_ps(0, 1, 17), 1_500 + 500);
        assert_eq!(mesh.latency_ps(0, 15, 64), 6 * 1_500 + 3 * 500);
        assert_eq!(mesh.controllers(), [0, 3, 12, 15]);
        assert_eq!(corners(1, 4), [0, 3]);
    }

    /// Along one side of `n` tiles two random ones are `(n^2 - 1) / 3n` apart: 1.25 for 4, and twice that for both
    /// sides.
    #[test]
    fn random_tiles_of_a_mesh_of_four_by_four_are_two_and_a_half_hops_apart() {
        let mesh = Mesh::new(&published());
        let pairs = (0..16).flat_map(|a| (0..16).map(move |b| (a, b)));
        let hops: u32 = pairs.map(|(a, b)| mesh.hops(a, b)).sum();
        assert_eq!(f64::from(hops) / 256.0, 2.5);
    }

    #[test]
    fn every_slice_has_its_share_of_every_stride() {
        let mesh = Mesh::new(&published());
        for stride in [1, 16, 64, 4_096] {
            let mut lines = [0u32; 16];
            (0..160_000).for_each(|line| lines[mesh.slice(line * stride) as usize] += 1);
            assert!(lines.iter().all(|count| (9_400..10_600).contains(count)), "stride {stride}: {lines:?}");
        }
    }
}
