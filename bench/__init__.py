"""What Kavka costs: one file per question asked, each measured on real `kavka serve` processes."""
