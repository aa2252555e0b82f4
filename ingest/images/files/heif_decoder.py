"""The decoder of HEIF, that of pi-heif (libheif and libde265), where the extra `heic` is installed. It turns and
mirrors pictures as the file says, and takes the orientation out of EXIF and XMP: viewers follow neither."""

from PIL import Image

from ingest.images.files.formats import HAS_HEIF, HEIF


def register() -> None:
    """Let Pillow open HEIF, if the extra is installed."""
    if not HAS_HEIF:
        return
    import pi_heif

    class PrimaryImageFile(pi_heif.HeifImageFile):  # type: ignore[misc]  # pi-heif has no types
        """The picture that viewers show. A file may hold others, which are named as unseen."""

        n_frames = 1

        def _open(self) -> None:
            super()._open()
            if not self.info["primary"]:
                raise SyntaxError("the primary picture is missing, or is a part of another one")

        def seek(self, frame: int) -> None:
            if frame:
                raise EOFError("one picture is shown")

    # One thread, as for other formats: a scan has a process for each core.
    pi_heif.register_heif_opener(thumbnails=False, depth_images=False, aux_images=False, decode_threads=1)
    Image.register_open(HEIF, PrimaryImageFile, Image.OPEN[HEIF][1])
