"""What a test needs: clusters in this process, a clock moved by hand, disks that fail."""
