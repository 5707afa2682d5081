"""What a fitted model does on images, as plain numbers: what a report draws."""
