//! The media of files against closed forms.

use pagewalk_vm::addr::PhysAddr;

use super::file::Part;
use super::media::Media;
use crate::spec::load;

fn media() -> Media {
    let spec = load("optane").unwrap_or_else(|error| panic!("{error}"));
    let persistent = spec.storage.persistent.clone().expect("the machine has it");
    Media::new(&spec, &persistent)
}

#[test]
fn a_page_of_zeroes_goes_through_ten_buffers() {
    let mut media = media();
    media.part(Part::Zero);
    media.write_data(PhysAddr(0), 4_096, None);
    media.fence();
    // Ten lines at a time, 94 ns each: the last four begin behind six full turns. A cycle lies between two lines' beginnings.
    let taken = media.parts().of(Part::Zero);
    assert!((7 * 94_000..7 * 94_000 + 10 * 334).contains(&taken), "{taken}");
    assert_eq!(media.parts().total(), taken);
}

#[test]
fn what_a_module_cannot_buffer_goes_at_its_bandwidth() {
    let mut media = media();
    media.part(Part::Data);
    media.write_data(PhysAddr(0), 64 << 20, None);
    media.fence();
    // Two modules of 2.3 GB/s each; what their buffers still hold does not count.
    let seconds = media.parts().total() as f64 / 1e12;
    let rate = f64::from(64 << 20) / seconds;
    assert!((4.55e9..4.65e9).contains(&rate), "{rate}");
}

#[test]
fn a_word_costs_what_the_memory_does_and_is_cached_then() {
    let mut media = media();
    media.part(Part::Find);
    media.load(PhysAddr(1 << 20));
    assert_eq!(media.parts().total(), 305_000);
    media.load(PhysAddr((1 << 20) + 64));
    assert_eq!(media.parts().total(), 305_000 + 169_000, "its neighbour");
    media.load(PhysAddr(1 << 20));
    assert_eq!(media.parts().total(), 305_000 + 169_000 + 5 * 333, "in the first cache");
    let dram = media.dram();
    media.load(dram);
    assert_eq!(media.parts().total(), 305_000 + 169_000 + 5 * 333 + 86_000);
    media.set_free(true);
    media.load(PhysAddr(1 << 30));
    media.fence();
    assert_eq!(media.parts().total(), 0);
}
