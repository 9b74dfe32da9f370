"""From numbers to what people look at: tables, figures, pages."""
